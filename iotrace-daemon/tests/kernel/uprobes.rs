//! Calls of libraries by uprobes, against what the programs say that they did.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::{
    self, Iotrace, compiled, directory,
    export::{by_python, environment, exported},
    library::{Counts, calls, probe, said},
    number, python, text, tool,
};
use flate2::read::GzDecoder;
use serde_json::Value;

/// The marker's library, as its users build it.
pub fn marker(directory: &Path) -> PathBuf {
    let library = directory.join("libiotrace-marker.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/marker/iotrace.c");
    let status = Command::new(tool("cc"))
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    assert!(status.expect("cc").success());
    library
}

fn expected(pairs: &[(&str, u64, u64)]) -> Counts {
    let pairs = pairs.iter();
    pairs
        .map(|(name, calls, bytes)| ((*name).to_owned(), (*calls, *bytes)))
        .collect()
}

#[test]
fn streams_are_counted_as_the_program_does() {
    let (_dir, dir) = directory();
    let program = compiled("stdio.c", &dir, &[]);
    let run = Iotrace::record()
        .args(["--uprobe", "stdio"])
        .command([program.as_os_str(), dir.as_os_str()]);
    let (truth, report) = run.truth_and_report();
    let stream = dir.join("stream");
    let truth = said(&truth);
    assert_eq!(calls(&report, Some(&stream), ""), truth);

    // Darshan's counters of it, by its own reader.
    let log = dir.join("log.darshan");
    fs::write(&log, exported(&run.recording, &["--format", "darshan"])).unwrap();
    const SCRIPT: &str = "import darshan, json, sys\n\
        report = darshan.DarshanReport(sys.argv[1], read_all=True)\n\
        stdio = report.records['STDIO'].to_df()\n\
        records = {report.name_records[c['id']]: {**c, **f} for c, f in zip(\n\
            stdio['counters'].to_dict('records'), stdio['fcounters'].to_dict('records'))}\n\
        print(json.dumps(records, default=lambda value: value.item()))";
    let records = by_python(&environment("darshan"), SCRIPT, &[&log]);
    let record = &records[stream.to_str().unwrap()];
    let size = fs::metadata(&stream).unwrap().len();
    let sum = |names: &[&str]| {
        let of = names.iter().map(|name| truth[*name]);
        of.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let reads = sum(&["fgets", "getline", "fgetc", "fread"]);
    let writes = sum(&["fprintf", "fputs", "fputc", "fwrite"]);
    for (counter, value) in [
        ("STDIO_OPENS", 2),
        ("STDIO_FDOPENS", 0),
        ("STDIO_READS", reads.0),
        ("STDIO_BYTES_READ", reads.1),
        ("STDIO_WRITES", writes.0),
        ("STDIO_BYTES_WRITTEN", writes.1),
        ("STDIO_SEEKS", 2),
        ("STDIO_FLUSHES", 1),
        ("STDIO_MAX_BYTE_WRITTEN", size - 1),
    ] {
        assert_eq!(number(record, counter), value, "{counter}");
    }
    // What was appended later was not there to be read, and fread gives whole items.
    assert!(number(record, "STDIO_MAX_BYTE_READ") < size - 11);
    let seconds = |name: &str| record[name].as_f64().expect("seconds");
    assert!(seconds("STDIO_F_WRITE_TIME") > 0.0 && seconds("STDIO_F_READ_TIME") > 0.0);
    assert!(seconds("STDIO_F_OPEN_START_TIMESTAMP") < seconds("STDIO_F_CLOSE_END_TIMESTAMP"));
}

#[test]
fn what_is_not_asked_for_is_not_there() {
    let (_dir, dir) = directory();
    let run = Iotrace::record().command(["ls".as_ref(), dir.as_os_str()]);
    assert!(!run.stdout.contains("uprobes"), "{}", run.stdout);
    assert!(!run.recording.join("part-000001/library.parquet").exists());
}

#[test]
fn ranges_are_marked_from_python() {
    const SCRIPT: &str = "import os, sys\n\
        sys.path.insert(0, sys.argv[1])\n\
        import iotrace\n\
        fd = os.open(sys.argv[2], os.O_RDONLY)\n\
        with iotrace.range('epoch'):\n    \
            for step in (1, 2, 3):\n        \
                with iotrace.range('step'):\n            \
                    os.pread(fd, 1000 * step, 0)\n\
        iotrace.mark('end')\n\
        iotrace.push('open for ever')\n";
    let (_dir, dir) = directory();
    let (library, data) = (marker(&dir), dir.join("data"));
    fs::write(&data, [7; 10_000]).unwrap();
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/src");
    let run = Iotrace::record()
        .args(["--uprobe".into(), probe("marker", &library)])
        .env("IOTRACE_MARKER", library.to_str().unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .command([
            python().as_os_str(),
            "-c".as_ref(),
            SCRIPT.as_ref(),
            module.as_os_str(),
            data.as_os_str(),
        ]);
    let report = run.report();
    let check = |report: &Value| {
        let marked = &report["uprobes"];
        let ranges = marked["ranges"].as_array().expect("ranges");
        let told: Vec<_> = ranges
            .iter()
            .map(|range| {
                let bytes = number(range, "bytes_read");
                (text(range, "name"), number(range, "depth"), bytes)
            })
            .collect();
        assert_eq!(
            told,
            [
                ("epoch", 0, 6000),
                ("step", 1, 1000),
                ("step", 1, 2000),
                ("step", 1, 3000),
                ("open for ever", 0, 0)
            ]
        );
        assert!(ranges[4]["end"].is_null());
        let steps = &marked["range_names"][1];
        assert_eq!((text(steps, "name"), number(steps, "count")), ("step", 3));
        assert_eq!(number(steps, "operations"), 3);
        assert_eq!(text(&marked["marks"][0], "name"), "end");
    };
    check(&report);
    let again = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["report", "--format", "json"])
        .arg(&run.recording)
        .output()
        .unwrap();
    check(&serde_json::from_slice(&again.stdout).unwrap());

    let trace = exported(&run.recording, &["--format", "chrome"]);
    let trace: Value = serde_json::from_reader(GzDecoder::new(&*trace)).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let marks: Vec<_> = events
        .filter(|event| text(event, "cat") == "mark")
        .map(|event| (text(event, "name"), text(event, "ph")))
        .collect();
    let steps = marks.iter().filter(|mark| **mark == ("step", "X")).count();
    assert_eq!(
        (steps, marks.contains(&("end", "i"))),
        (3, true),
        "{marks:?}"
    );
}

/// What the program of cuFile's does, by function and file.
fn check_cufile(report: &Value, dir: &Path) {
    let first = expected(&[
        ("cuFileBatchIOSubmit", 2, 1000 + 3000),
        ("cuFileBatchIOSubmit:write", 1, 5000),
        ("cuFileHandleDeregister", 1, 0),
        ("cuFileHandleRegister", 1, 0),
        ("cuFileRead", 2, 655_360),
        ("cuFileWrite", 10, 655_360),
    ]);
    assert_eq!(calls(report, Some(&dir.join("gpu-0")), ""), first);
    let second = expected(&[
        ("cuFileBatchIOSubmit", 2, 2000 + 4000),
        ("cuFileHandleDeregister", 1, 0),
        ("cuFileHandleRegister", 1, 0),
        ("cuFileReadAsync", 1, 12_345),
        ("cuFileWriteAsync", 1, 12_345),
    ]);
    assert_eq!(calls(report, Some(&dir.join("gpu-1")), ""), second);
    let rows = report["uprobes"]["calls"].as_array().unwrap();
    let failed: u64 = rows.iter().map(|row| number(row, "failures")).sum();
    assert_eq!(failed, 1, "a registration of no descriptor");
}

fn cufile(dir: &Path) -> (PathBuf, PathBuf) {
    let library = compiled("cufile_library.c", dir, &["-shared", "-fPIC"]);
    let named = dir.join("libcufile.so.0");
    fs::rename(library, &named).unwrap();
    (compiled("cufile.c", dir, &["-ldl"]), named)
}

#[test]
fn cufile_is_counted_by_file() {
    let (_dir, dir) = directory();
    let (program, library) = cufile(&dir);
    let run = Iotrace::record()
        .args(["--uprobe".into(), probe("cufile", &library)])
        .command([&program, &library, &dir]);
    check_cufile(&run.report(), &dir);
}

#[test]
fn a_library_that_is_loaded_later_is_found() {
    let (_dir, dir) = directory();
    let (program, library) = cufile(&dir);
    let go = dir.join("go");
    let mut running = Iotrace::record()
        .args(["--uprobe", "cufile"])
        .env("RUST_LOG", "info")
        .start_command([&program, &library, &dir, &go]);
    // The program waits until the probes are said to be on.
    let mut lines = BufReader::new(running.child.stderr.take().expect("standard error")).lines();
    let name = library.to_str().unwrap();
    let found = lines.find(|line| {
        let line = line.as_ref().expect("a line");
        line.contains("probes on") && line.contains(name)
    });
    assert!(found.is_some(), "the library was not found");
    fs::write(&go, "").unwrap();
    let rest = std::thread::spawn(move || lines.count());
    let report = running.wait().report();
    rest.join().expect("the reader");
    check_cufile(&report, &dir);
    let probed = &report["uprobes"]["libraries"][0];
    assert_eq!(text(probed, "file"), name);
    assert!(probed["late_seconds"].as_f64().unwrap() > 0.0);
    let missing = probed["missing"].as_array().unwrap();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn data_sets_are_counted_by_name() {
    const SCRIPT: &str = "import h5py, numpy, sys\n\
        with h5py.File(sys.argv[1], 'w') as file:\n    \
            file.create_dataset('plain', data=numpy.arange(10000, dtype='f8'))\n    \
            group = file.create_group('group')\n    \
            chunked = group.create_dataset('chunked', (1000, 100), dtype='f4', chunks=(100, 10), compression='gzip')\n    \
            chunked[...] = numpy.ones((1000, 100), 'f4')\n    \
            chunked[10:20, 5] = numpy.zeros(10, 'f8')\n    \
            file.flush()\n\
        with h5py.File(sys.argv[1], 'r') as file:\n    \
            file['plain'][...]\n    \
            file['plain'].astype('f4')[10:20]\n    \
            file['group']['chunked'][::2, 0]\n";
    let (_dir, dir) = directory();
    let python = environment("hdf5");
    let environment_of = python.ancestors().nth(2).unwrap();
    let library = find_hdf5(environment_of);
    let data = dir.join("data.h5");
    let run = Iotrace::record()
        .args(["--uprobe".into(), probe("hdf5", &library)])
        .command([
            python.as_os_str(),
            "-c".as_ref(),
            SCRIPT.as_ref(),
            data.as_os_str(),
        ]);
    let report = run.report();
    let of = |object: &str| {
        let mut calls = calls(&report, Some(&data), object);
        calls.retain(|name, _| {
            ["H5Dread", "H5Dwrite", "H5Fopen", "H5Fcreate"].contains(&name.as_str())
        });
        calls
    };
    assert_eq!(of(""), expected(&[("H5Fcreate", 1, 0), ("H5Fopen", 1, 0)]));
    // By the size of an element in the file: 8 bytes of the plain one, 4 of the other, whatever it is in memory.
    let plain = expected(&[("H5Dread", 2, 80_000 + 80), ("H5Dwrite", 1, 80_000)]);
    assert_eq!(of("/plain"), plain);
    let chunked = expected(&[("H5Dread", 1, 2000), ("H5Dwrite", 2, 400_000 + 40)]);
    assert_eq!(of("/group/chunked"), chunked);

    let log = dir.join("log.darshan");
    fs::write(&log, exported(&run.recording, &["--format", "darshan"])).unwrap();
    const READ: &str = "import darshan, json, sys\n\
        report = darshan.DarshanReport(sys.argv[1], read_all=True)\n\
        records = {}\n\
        for module in ('H5F', 'H5D'):\n    \
            for c in report.records[module].to_df()['counters'].to_dict('records'):\n        \
                records[report.name_records[c['id']]] = c\n\
        print(json.dumps(records, default=lambda value: value.item()))";
    let records = by_python(&environment("darshan"), READ, &[&log]);
    let name = data.to_str().unwrap();
    assert_eq!(number(&records[name], "H5F_OPENS"), 2);
    assert_eq!(number(&records[name], "H5F_FLUSHES"), 1);
    let plain = &records[format!("{name}:/plain")];
    assert_eq!(number(plain, "H5D_READS"), 2);
    assert_eq!(number(plain, "H5D_BYTES_READ"), 80_080);
    assert_eq!(number(plain, "H5D_BYTES_WRITTEN"), 80_000);
    assert_eq!(number(plain, "H5D_SIZE_READ_AGG_0_100"), 1);
    assert_eq!(number(plain, "H5D_SIZE_READ_AGG_10K_100K"), 1);
    let chunked = &records[format!("{name}:/group/chunked")];
    assert_eq!(number(chunked, "H5D_WRITES"), 2);
}

/// HDF5's library in h5py's wheel.
fn find_hdf5(environment: &Path) -> PathBuf {
    let lib = environment.join("lib");
    let mut pythons = fs::read_dir(&lib).expect("its lib").flatten();
    let files =
        pythons.find_map(|entry| fs::read_dir(entry.path().join("site-packages/h5py.libs")).ok());
    let mut files = files.expect("h5py").flatten().map(|entry| entry.path());
    let is_hdf5 = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libhdf5-")
    };
    files.find(is_hdf5).expect("libhdf5 in h5py.libs")
}

#[test]
fn what_cannot_be_probed_is_said() {
    let (_dir, dir) = directory();
    let other = dir.join("other.so");
    fs::write(&other, "no library").unwrap();
    let refused = |args: [OsString; 2], words: &[&str]| {
        let out = Iotrace::record().args(args).command(["true"]);
        assert_ne!(out.code(), 0);
        out.says(words);
    };
    refused(
        ["--uprobe".into(), probe("stdio", &other)],
        &["stdio", "other.so"],
    );
    refused(
        ["--uprobe".into(), "fortran".into()],
        &["stdio, cufile, hdf5, marker, mpiio"],
    );
    refused(["--uprobe".into(), "hdf5:/no/such".into()], &["/no/such"]);
}

/// Each kind of probe is measured, and costs something in the process that it is on.
#[test]
fn what_probes_cost_is_measured() {
    common::need_root();
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["check", "--uprobes"])
        .output()
        .expect("iotrace");
    let said = String::from_utf8(out.stdout).expect("UTF-8");
    let (_, table) = said.split_once("\nUprobes: ").expect(&said);
    let mut rows = 0;
    for line in table.lines().skip(1).take_while(|line| !line.is_empty()) {
        let (before, _) = line.split_once(" in a traced process").expect(line);
        let ns: f64 = before
            .rsplit(' ')
            .next()
            .unwrap_or_default()
            .parse()
            .expect(line);
        assert!(ns > 0.0, "{line}");
        rows += 1;
    }
    assert_eq!(rows, 4, "{said}");
}
