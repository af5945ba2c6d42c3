//! Libraries and fio that use files as memory: what they say, or what their files are, is what iotrace says.

use std::{fs, path::Path};

use crate::common::{
    Iotrace,
    cache::{Held, drop_pages},
    compare::{nothing_lost, sum_of},
    directory,
    export::environment,
    fio, number,
};
use serde_json::Value;

const PAGE: u64 = 4096;

/// Runs a script with the packages of one of the environments.
fn script(packages: &str, script: &str, path: &Path) -> (Value, Value) {
    let python = environment(packages);
    let run = Iotrace::record().args(["--detail", "basic"]).command([
        python.as_os_str(),
        "-c".as_ref(),
        script.as_ref(),
        path.as_os_str(),
    ]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let (truth, report) = run.truth_and_report();
    nothing_lost(&report);
    (truth, report)
}

/// Bytes of the pages of a file.
fn pages(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len().next_multiple_of(PAGE)
}

/// The name of a Python package, what writes a file, and what reads all of it and says the sum.
const READERS: [(&str, &str, &str); 2] = [
    (
        "tensors",
        "import numpy, sys\nfrom safetensors.numpy import save_file\n\
         save_file({f'layer.{n}': numpy.full((1024, 256), n, 'float32') for n in range(4)}, sys.argv[1])\n\
         print('{}')",
        "import json, sys\nfrom safetensors import safe_open\n\
         with safe_open(sys.argv[1], framework='numpy') as file:\n    \
         print(json.dumps({'sum': sum(int(file.get_tensor(name).sum()) for name in file.keys())}))",
    ),
    (
        "tensors",
        "import numpy, sys\n\
         numpy.save(open(sys.argv[1], 'wb'), numpy.repeat(numpy.arange(4, dtype='float32'), 1024 * 256))\n\
         print('{}')",
        "import json, numpy, sys\narray = numpy.load(sys.argv[1], mmap_mode='r')\n\
         print(json.dumps({'sum': int(array.sum())}))",
    ),
];

#[test]
fn arrays_that_libraries_map() {
    for (packages, write, read) in READERS {
        let (_keep, dir) = directory();
        let path = dir.join("data");
        script(packages, write, &path);
        for cold in [true, false] {
            let _held = if cold {
                drop_pages(&path);
                None
            } else {
                Some(Held::new(&path))
            };
            let (truth, report) = script(packages, read, &path);
            assert_eq!(number(&truth, "sum"), 6 * 1024 * 256);
            let counter = |name| sum_of(&report, &path, name);
            let fetched = if cold { pages(&path) } else { 0 };
            assert_eq!(counter("bytes_fetched"), fetched, "{read}");
            assert!(counter("mapped_bytes_fetched") <= fetched);
            // The header at most is read.
            assert!(counter("bytes_read") <= 1 << 17, "{read}");
            assert!(
                counter("faults") > 0 && counter("mapped_bytes") > 0,
                "{read}"
            );
            // Cold ones may all have been served by readahead that went before.
            assert!(cold || counter("major_faults") == 0, "{read}");
        }
    }
}

#[test]
fn arrays_that_are_changed() {
    const CHANGE: &str = "import json, numpy, sys\n\
         array = numpy.memmap(sys.argv[1], 'uint8', 'r+')\n\
         array[::4096] = 7\narray.flush()\nprint(json.dumps({'pages': len(array) // 4096}))";
    let (_keep, dir) = directory();
    let path = dir.join("data");
    fs::write(&path, vec![1_u8; 1 << 20]).unwrap();
    drop_pages(&path);
    let (truth, report) = script("tensors", CHANGE, &path);
    let dirtied = sum_of(&report, &path, "mapped_bytes_dirtied");
    // In folios, which may have several pages.
    assert_eq!(number(&truth, "pages") * PAGE, dirtied);
    assert_eq!(sum_of(&report, &path, "bytes_written"), 0);
    assert_eq!(sum_of(&report, &path, "bytes_fetched"), 1 << 20);
    assert_eq!(number(&report["totals"], "msyncs"), 1);
    assert!(
        fs::read(&path)
            .unwrap()
            .iter()
            .step_by(4096)
            .all(|byte| *byte == 7)
    );
}

#[test]
fn fio_by_mapped_files() {
    for pattern in ["--rw=read", "--rw=randread", "--rw=randwrite"] {
        let (_keep, dir) = directory();
        let options = ["--ioengine=mmap", "--size=4m", "--bs=4k", pattern];
        fio::lay_out(&dir, &options);
        drop_pages(&dir.join("job.0.0"));
        let (own, report, _) = fio::run(Iotrace::record(), &dir, &options);
        let rows: Vec<_> = fio::rows(&report).map(|(_, row)| row).collect();
        let found = |name: &str| rows.iter().map(|row| number(row, name)).sum::<u64>();
        let job = &own["jobs"][0];
        let (read, written) = (
            number(&job["read"], "io_bytes"),
            number(&job["write"], "io_bytes"),
        );
        assert_eq!(read + written, 4 << 20, "each page once");
        assert_eq!(found("mapped_bytes_fetched"), 4 << 20, "{pattern}");
        assert_eq!(found("mapped_bytes_dirtied"), written, "{pattern}");
        assert_eq!((found("reads"), found("writes")), (0, 0), "{pattern}");
        assert!((1..=1024).contains(&found("faults")), "{pattern}");
    }
}
