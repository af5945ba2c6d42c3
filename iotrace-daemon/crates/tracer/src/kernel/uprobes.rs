//! Uprobes: which libraries there are, where their files lie, and the probes on their functions.
//!
//! A library is a row of [`LIBRARIES`]; its functions are those of [`iotrace_common::library::FUNCTIONS`]. Probes are put on
//! a file, by the addresses that its own symbol table gives, and are there for every process that maps it: the programs
//! leave alone those that are not traced. Attaches the programs `library_enter` and `library_return`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::{ffi::OsStringExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    str::FromStr,
};

use aya::{
    Ebpf,
    programs::{
        UProbe,
        uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope},
    },
};
use iotrace_common::library::{self, FUNCTIONS, bytes, class};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};

use super::{
    Kernel, KernelError,
    program::{attach_error, load, program},
    uprobe_datatypes,
};
use iotrace_model::run::Probed;

pub const ENTER: &str = "library_enter";
pub const RETURN: &str = "library_return";

/// A library: its number, and how its files begin.
struct Library {
    number: u8,
    files: &'static [&'static str],
}

const LIBRARIES: [Library; library::COUNT] = [
    Library {
        number: library::STDIO,
        files: &["libc.so.6", "libc-2."],
    },
    Library {
        number: library::CUFILE,
        files: &["libcufile.so", "libcufile-"],
    },
    Library {
        number: library::HDF5,
        files: &[
            "libhdf5.so",
            "libhdf5-",
            "libhdf5_serial.so",
            "libhdf5_serial-",
            "libhdf5_openmpi.so",
            "libhdf5_mpich.so",
        ],
    },
    Library {
        number: library::MARKER,
        files: &["libiotrace-marker.so"],
    },
    // The C library of an MPI, which those of other languages call: MPICH's and Intel's, its standard binary interface's,
    // Cray's by compiler, Open MPI's.
    Library {
        number: library::MPIIO,
        files: &[
            "libmpi.so",
            "libmpi-",
            "libmpi_abi.so",
            "libmpi_cray.so",
            "libmpi_gnu_",
            "libmpi_intel.so",
            "libmpi_nvidia.so",
            "libmpich.so",
            "libmpich-",
        ],
    },
];

/// Where libraries lie that nobody has mapped yet.
const DIRECTORIES: [&str; 10] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/iotrace",
    "/usr/local/cuda/lib64",
];

/// What is asked for: a library, and the one file of it that is meant, where one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    library: u8,
    file: Option<PathBuf>,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, file) = match text.split_once(':') {
            Some((name, file)) => (name, Some(PathBuf::from(file))),
            None => (text, None),
        };
        let number = library::NAMES.iter().position(|known| *known == name);
        let number = number.ok_or_else(|| {
            let known = library::NAMES.join(", ");
            format!("there are probes for {known}: write NAME, or NAME:FILE for one file of it")
        })?;
        if let Some(file) = &file {
            fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(Self {
            library: number as u8,
            file,
        })
    }
}

/// Whether programs may set marks.
pub fn marks(wanted: &[Wanted]) -> bool {
    wanted
        .iter()
        .any(|wanted| wanted.library == library::MARKER)
}

/// The probes of a run.
#[derive(Debug, Default)]
pub struct Uprobes {
    wanted: Vec<Wanted>,
    /// Files that were looked at, by device and inode.
    seen: BTreeSet<(u64, u64)>,
    probed: Vec<Probed>,
}

impl Uprobes {
    pub fn new(wanted: &[Wanted]) -> Self {
        Self {
            wanted: wanted.to_vec(),
            ..Self::default()
        }
    }

    /// Whether there are probes that have to come off.
    pub fn are_attached(&self) -> bool {
        !self.probed.is_empty()
    }

    /// The library that a file of this path is by its name, if it is one that is waited for.
    fn library_of(&self, path: &Path) -> Option<u8> {
        let name = path.file_name()?.to_str()?;
        let library = LIBRARIES
            .iter()
            .find(|library| library.files.iter().any(|start| name.starts_with(start)))?;
        let is_wanted = |wanted: &Wanted| wanted.library == library.number && wanted.file.is_none();
        self.wanted.iter().any(is_wanted).then_some(library.number)
    }

    /// Files of libraries that are wanted: those that are named, that processes have mapped, and that lie where libraries
    /// lie.
    fn find(&self, pids: &[u32]) -> Vec<(u8, PathBuf)> {
        let named = self.wanted.iter();
        let mut found: Vec<(u8, PathBuf)> = named
            .filter_map(|wanted| Some((wanted.library, wanted.file.clone()?)))
            .collect();
        let own = std::process::id();
        for pid in pids.iter().chain([&own]) {
            for path in mapped_by(*pid) {
                let library = self.library_of(&path);
                found.extend(library.map(|library| (library, as_seen_by(*pid, &path))));
            }
        }
        let searched = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let directories = DIRECTORIES.iter().map(PathBuf::from);
        for directory in directories.chain(std::env::split_paths(&searched)) {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                found.extend(self.library_of(&path).map(|library| (library, path)));
            }
        }
        found
    }
}

/// A path as a process sees it, which may be in a container.
fn as_seen_by(pid: u32, path: &Path) -> PathBuf {
    let inside = path.strip_prefix("/").unwrap_or(path);
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let there = root.join(inside);
    // Where both are the same file, the plain path outlives the process.
    match (identity(path), identity(&there)) {
        (Some(here), Some(seen)) if here == seen => path.into(),
        _ => there,
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

/// Files that a process has mapped as code.
fn mapped_by(pid: u32) -> BTreeSet<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    // proc(5): address, permissions, offset, device, inode, path.
    maps.lines()
        .filter(|line| {
            line.split(' ')
                .nth(1)
                .is_some_and(|bits| bits.contains('x'))
        })
        .filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..])))
        .collect()
}

/// A probe: the function, and where in the file it begins.
type Place = (library::Function, u64);

/// The functions of a library in a file, by its symbols; and those that it lacks.
fn places(path: &Path, library: u8) -> Result<(Vec<Place>, Vec<&'static str>), String> {
    let data = fs::read(path).map_err(|error| error.to_string())?;
    let file = object::File::parse(&*data).map_err(|error| error.to_string())?;
    let mut symbols: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for symbol in file.dynamic_symbols().chain(file.symbols()) {
        if let Ok(name) = symbol.name()
            && symbol.is_definition()
            && symbol.kind() == object::SymbolKind::Text
        {
            symbols.entry(name).or_default().insert(symbol.address());
        }
    }
    let offset_of = |address: u64| {
        let mut segments = file.segments();
        segments.find_map(|segment| {
            let (offset, _) = segment.file_range();
            let within = address.checked_sub(segment.address())?;
            let is_inside = within < segment.size();
            offset.checked_add(within).filter(|_| is_inside)
        })
    };
    let size_word = match library {
        library::MPIIO => uprobe_datatypes::size_word(&file),
        _ => 0,
    };
    let mut places: Vec<Place> = Vec::new();
    let mut missing = Vec::new();
    for (name, function) in FUNCTIONS {
        // One with a colon has no symbol of its own.
        if function.library != library || name.contains(':') {
            continue;
        }
        if size_word != 0 && is_asking(function) {
            // It need not be asked for.
            continue;
        }
        let mut is_missing = true;
        for (name, function) in names(name, function) {
            let function = library::Function {
                size_word,
                ..function
            };
            let addresses = symbols.get(&*name).into_iter().flatten();
            for offset in addresses.filter_map(|address| offset_of(*address)) {
                is_missing = false;
                // Several names of one function are one.
                if places.iter().all(|(_, known)| *known != offset) {
                    places.push((function, offset));
                }
            }
        }
        if is_missing {
            missing.push(*name);
        }
    }
    Ok((places, missing))
}

/// Whether it is a function by which a library asks itself for the size of a datatype.
fn is_asking(function: &library::Function) -> bool {
    function.bytes & !bytes::LARGE == bytes::SIZE
}

/// The symbols of a function, and what each is. Each of MPI's has a second name, by which tools call it that stand in its
/// place, and some a form for large counts, which is the same to users.
fn names(name: &'static str, function: &library::Function) -> Vec<(String, library::Function)> {
    let mut names = vec![(name.to_owned(), *function)];
    if function.library == library::MPIIO {
        let large = library::Function {
            bytes: function.bytes | bytes::LARGE,
            ..*function
        };
        names.push((format!("{name}_c"), large));
        for index in 0..names.len() {
            let (name, function) = &names[index];
            names.push((format!("P{name}"), *function));
        }
    }
    names
}

/// Puts the probes of a library on a file.
fn attach(ebpf: &mut Ebpf, path: &Path, places: &[Place]) -> Result<(), KernelError> {
    // The returns first, so that no call is begun whose end goes unseen.
    let has_return = |place: &&Place| place.0.class != class::MARK;
    let has_start = |place: &&Place| place.0.class != class::INNER || is_asking(&place.0);
    let returns: Vec<&Place> = places.iter().filter(has_return).collect();
    let starts: Vec<&Place> = places.iter().filter(has_start).collect();
    for (name, places) in [(RETURN, returns), (ENTER, starts)] {
        let program: &mut UProbe = program(ebpf, name)?;
        for (function, offset) in places {
            let point = UProbeAttachPoint {
                location: UProbeAttachLocation::AbsoluteOffset(*offset),
                cookie: Some(function.cookie()),
            };
            let scope = UProbeScope::AllProcesses;
            program.attach(point, path, scope).map_err(|error| {
                let symbol = FUNCTIONS[usize::from(function.index)].0;
                attach_error(&format!("{}:{symbol}", path.display()), &error)
            })?;
        }
    }
    Ok(())
}

impl Kernel {
    /// Puts probes on all files of the wanted libraries that are known now: those that are named, that these processes have
    /// mapped, and that lie where libraries lie. A library that comes later is for [`Kernel::probe_mapped`].
    pub fn probe_libraries(&mut self, pids: &[u32]) -> Result<(), KernelError> {
        if self.uprobes.wanted.is_empty() {
            return Ok(());
        }
        for name in [RETURN, ENTER] {
            let program: &mut UProbe = program(&mut self.ebpf, name)?;
            load(name, "uprobe", || program.load())?;
        }
        for (library, path) in self.uprobes.find(pids) {
            let is_named = self.uprobes.wanted.iter();
            let is_named = is_named
                .filter_map(|wanted| wanted.file.as_ref())
                .any(|file| *file == path);
            match self.probe_file(library, &path, 0) {
                Err(error) if is_named => return Err(error),
                Err(error) => log::warn!("{error}"),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Puts probes on a file that a process has just mapped as code, if it is a library that is waited for. `ago`: how long
    /// it has been mapped, nanoseconds.
    pub fn probe_mapped(&mut self, pid: u32, path: &[u8], ago: impl Fn() -> u64) {
        let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
        let Some(library) = self.uprobes.library_of(&path) else {
            return;
        };
        let path = as_seen_by(pid, &path);
        let before = self.uprobes.probed.len();
        if let Err(error) = self.probe_file(library, &path, 0) {
            log::warn!("{error}");
        }
        if let Some(probed) = self.uprobes.probed.get_mut(before) {
            probed.late_ns = ago();
            log::info!(
                "{} was mapped {:.0} ms before its probes were on: calls until then are not counted",
                probed.file,
                probed.late_ns as f64 / 1e6
            );
        }
    }

    /// What is probed.
    pub fn probed(&self) -> &[Probed] {
        &self.uprobes.probed
    }

    fn probe_file(&mut self, library: u8, path: &Path, late_ns: u64) -> Result<(), KernelError> {
        let Some(identity) = identity(path) else {
            return Ok(());
        };
        if !self.uprobes.seen.insert(identity) {
            return Ok(());
        }
        let name = library::NAMES[usize::from(library)];
        let (places, missing) = places(path, library).map_err(|reason| KernelError::Attach {
            hook: format!("{name}: {}", path.display()),
            reason,
            hint: "\nname a shared library",
        })?;
        if places.is_empty() {
            return Err(KernelError::Attach {
                hook: format!("{name}: {}", path.display()),
                reason: format!("it has none of the functions of {name}"),
                hint: "",
            });
        }
        let started = std::time::Instant::now();
        attach(&mut self.ebpf, path, &places)?;
        log::info!(
            "{name}: probes on {} functions of {} in {:.0?}; it has no {}",
            places.len(),
            path.display(),
            started.elapsed(),
            if missing.is_empty() {
                "others".to_owned()
            } else {
                missing.join(", ")
            }
        );
        self.uprobes.probed.push(Probed {
            library: name.into(),
            file: path.display().to_string(),
            functions: places.len() as u32,
            missing: missing.iter().map(|symbol| (*symbol).to_owned()).collect(),
            late_ns,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn libraries_are_told_by_the_names_of_their_files() {
        let wanted = ["stdio", "hdf5"].map(|name| name.parse().unwrap());
        let uprobes = Uprobes::new(&wanted);
        let of = |path: &str| uprobes.library_of(Path::new(path));
        assert_eq!(of("/lib/x86_64-linux-gnu/libc.so.6"), Some(library::STDIO));
        assert_eq!(
            of("/x/h5py.libs/libhdf5-9e18f0c6.so.320.0.0"),
            Some(library::HDF5)
        );
        assert_eq!(of("/x/h5py.libs/libhdf5_hl-69da89c9.so.320.0.0"), None);
        assert_eq!(of("/usr/lib/libcufile.so.0"), None, "not wanted");
        assert!("fortran".parse::<Wanted>().unwrap_err().contains("hdf5"));
        assert!("hdf5:/no/such/file".parse::<Wanted>().is_err());
    }

    #[test]
    fn functions_are_found_by_symbol() {
        // Another program than this one, which may be linked statically.
        let mut cat = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, mut output) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        input.write_all(b"x").unwrap();
        // By then its libraries are there.
        output.read_exact(&mut [0]).unwrap();
        let mapped = mapped_by(cat.id());
        drop(input);
        cat.wait().unwrap();
        let libc = mapped.iter().find(|path| path.ends_with("libc.so.6"));
        let (places, missing) = places(libc.unwrap(), library::STDIO).unwrap();
        assert!(places.len() > 30, "{places:?}");
        assert!(!missing.contains(&"fread"), "{missing:?}");
        let offsets: BTreeSet<u64> = places.iter().map(|(_, offset)| *offset).collect();
        assert_eq!(offsets.len(), places.len(), "no function twice");
    }
}
