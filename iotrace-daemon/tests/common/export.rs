//! Runs `iotrace export`, and the readers of other people that its files are for.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use super::{Iotrace, run::Finished};

/// `iotrace export`.
pub fn export(recording: &Path, args: &[&str]) -> Output {
    export_all(&[recording], args)
}

/// The same of the recordings of several nodes.
pub fn export_all<P: AsRef<OsStr>>(recordings: &[P], args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("export")
        .args(recordings)
        .args(args)
        .output()
        .unwrap()
}

/// The same, which must go well; what it writes to standard output.
#[track_caller]
pub fn exported(recording: &Path, args: &[&str]) -> Vec<u8> {
    exported_all(&[recording], args)
}

#[track_caller]
pub fn exported_all<P: AsRef<OsStr>>(recordings: &[P], args: &[&str]) -> Vec<u8> {
    let out = export_all(recordings, args);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && errors.is_empty(), "{errors}");
    out.stdout
}

/// `iotrace report --format json` of the recordings of a job.
#[track_caller]
pub fn report_of<P: AsRef<OsStr>>(recordings: &[P]) -> Value {
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["report", "--format", "json"])
        .args(recordings)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && errors.is_empty(), "{errors}");
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Records a Python program with these arguments of iotrace's and many flushes; the program has the path of a directory
/// in `dir` that is not there.
#[track_caller]
pub fn record_program(source: &str, dir: &Path, args: &[&str]) -> Finished {
    std::fs::create_dir_all(dir).unwrap();
    let program = dir.join("program.py");
    std::fs::write(&program, source).unwrap();
    let work = dir.join("work");
    let recorded = Iotrace::record().flush("50ms").args(args);
    let finished = recorded.command([super::python().as_path(), &program, &work]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    finished
}

pub fn gunzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(bytes);
    std::io::Read::read_to_end(&mut decoder, &mut out).unwrap();
    out
}

/// Runs a Python script on a file, which prints JSON.
pub fn by_python(interpreter: &Path, script: &str, args: &[&Path]) -> Value {
    let out = Command::new(interpreter)
        .args(["-c", script])
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}");
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out.stdout)))
}

/// Where the setup puts Python's environments and interpreters.
pub fn python_directory() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_iotrace"));
    program.ancestors().nth(2).unwrap().join("python")
}

/// The interpreter of an environment that the setup makes.
pub fn environment(name: &str) -> PathBuf {
    let python = python_directory().join(name).join("bin/python");
    assert!(
        python.exists(),
        "{} is missing: `cargo xtask setup` makes it",
        python.display()
    );
    python
}

/// What PyDarshan reads in a log.
pub fn by_pydarshan(log: &Path) -> Value {
    const SCRIPT: &str = "import darshan, json, sys\n\
        report = darshan.DarshanReport(sys.argv[1], read_all=True)\n\
        posix = report.records['POSIX'].to_df()\n\
        records = [{**f, **c, 'name': report.name_records[c['id']]} for c, f in zip(\n\
            posix['counters'].to_dict('records'), posix['fcounters'].to_dict('records'))]\n\
        heat = {op: int(report.heatmaps['POSIX'].to_df(ops=[op]).values.sum()) for op in ('read', 'write')}\n\
        print(json.dumps({'job': report.metadata['job'], 'exe': report.metadata['exe'], 'heat': heat,\n\
            'mounts': report.mounts, 'records': records},\n\
            default=lambda value: value.item() if hasattr(value, 'item') else str(value)))";
    by_python(&environment("darshan"), SCRIPT, &[log])
}

/// What darshan-util's accumulator makes of the records of a log.
#[track_caller]
pub fn derived_metrics(log: &Path) -> Value {
    const SCRIPT: &str = "import darshan, json, sys\n\
        from darshan.backend.cffi_backend import accumulate_records\n\
        report = darshan.DarshanReport(sys.argv[1], read_all=True)\n\
        records = report.records['POSIX'].to_df()\n\
        derived = accumulate_records(records, 'POSIX', report.metadata['job']['nprocs']).derived_metrics\n\
        keys = ('count', 'total_read_volume_bytes', 'total_write_volume_bytes', 'total_max_offset_bytes', 'max_offset_bytes')\n\
        categories = [{key: getattr(one, key) for key in keys} for one in derived.category_counters]\n\
        print(json.dumps({'categories': categories, 'agg_time_by_slowest': derived.agg_time_by_slowest,\n\
            'agg_perf_by_slowest': derived.agg_perf_by_slowest}))";
    by_python(&environment("darshan"), SCRIPT, &[log])
}

/// The page that `darshan summary` makes of a log in `dir`.
#[track_caller]
pub fn summary(log: &Path, dir: &Path, options: &[&str]) -> String {
    let html = dir.join("summary.html");
    let out = Command::new(environment("darshan"))
        .args(["-m", "darshan", "summary"])
        .args(options)
        .arg("--output")
        .args([html.as_path(), log])
        .current_dir(dir)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && !errors.contains("Error"),
        "{errors}"
    );
    std::fs::read_to_string(&html).unwrap()
}

#[track_caller]
pub fn refused(out: &Output, words: &[&str]) {
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success(), "it went well");
    for word in words {
        assert!(errors.contains(word), "{word} is not in: {errors}");
    }
}

/// Makes a recording one of another host, which it is by its meta.json.
pub fn set_host(recording: &Path, host: &str) {
    set_meta(recording, "host", host);
    set_meta(recording, "boot_id", &format!("boot of {host}"));
}

/// Writes something else into a recording's meta.json.
pub fn set_meta(recording: &Path, key: &str, value: &str) {
    let path = recording.join("meta.json");
    let mut meta: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    meta[key] = value.into();
    std::fs::write(&path, meta.to_string()).unwrap();
}
