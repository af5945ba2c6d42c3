use std::{path::Path, time::Duration};

use clap::Parser;

use super::*;
use iotrace_tracer::kernel::HookChoice;

const SHIPPED: &str = include_str!("../../../../../deploy/iotrace.toml");

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
}

fn parse(text: &str) -> Result<Config, String> {
    let path = Path::new("/x.toml");
    let parsed = Config::parse(text, path).and_then(|config| config.checked(text, path));
    parsed.map_err(|error| error.to_string())
}

/// The shipped file with its keys uncommented: lines that are a comment of `key = value`.
fn uncommented() -> String {
    let uncomment = |line: &str| {
        let key = line
            .strip_prefix("# ")
            .and_then(|rest| rest.split_once(" = "));
        match key {
            Some((key, _)) if key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => {
                line[2..].to_owned()
            }
            _ => line.to_owned(),
        }
    };
    SHIPPED
        .lines()
        .map(uncomment)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_shipped_file_changes_nothing() {
    assert_eq!(parse(SHIPPED), Ok(Config::default()));
}

#[test]
fn defaults_and_examples_of_the_shipped_file_can_be_read() {
    let mut shown = parse(&uncommented()).unwrap();
    // Keys without a default are shown by an example.
    for example in [
        &mut shown.trace.btf,
        &mut shown.trace.rules,
        &mut shown.http.tls_certificate,
        &mut shown.http.tls_key,
        &mut shown.jobs.directory,
    ] {
        assert!(example.take().is_some());
    }
    assert!(shown.recordings.group.take().is_some());
    assert_eq!(shown, Config::default());
}

#[test]
fn errors_name_the_line() {
    for (text, expected) in [
        ("[http]\nport = 1\n", "/x.toml:2: unknown field `port`"),
        ("\n[htp]\n", "/x.toml:2: unknown field `htp`"),
        (
            "[http]\n\nlisten = \"here\"",
            "/x.toml:3: invalid socket address",
        ),
        (
            "[metrics]\nlinger = \"soon\"",
            "/x.toml:2: `soon` is no duration",
        ),
        (
            "[jobs]\nleast = 5",
            "/x.toml:2: invalid type: integer `5`, expected a string such as \"30s\"",
        ),
        ("[jobs]\nmax_open = 0", "/x.toml:2: max_open is at least 1"),
        ("[metrics]\nmax_series = -1", "/x.toml:2: invalid value"),
        (
            "[metrics]\nmax_series = 5",
            "/x.toml:2: max_series is at least",
        ),
        (
            "[http]\ntls_key = \"/k\"",
            "/x.toml:2: tls_certificate and tls_key",
        ),
        (
            "[http.users]\nada = \"plain\"",
            "/x.toml:2: not a bcrypt hash",
        ),
        (
            "[recordings]\nsocket = \"iotrace.sock\"",
            "/x.toml:2: socket is an absolute path, or \"none\"",
        ),
        ("trace = [", "/x.toml:1: "),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    let socket = |length: usize| {
        let path = format!("/{}", "s".repeat(length - 1));
        parse(&format!("[recordings]\nsocket = \"{path}\""))
    };
    assert!(socket(107).is_ok());
    let error = socket(108).unwrap_err();
    assert_eq!(
        error,
        "/x.toml:2: socket has 108 bytes: choose a path of at most 107"
    );
}

#[test]
fn job_logs_say_how_much_is_kept() {
    use iotrace_tracer::kernel::Detail;
    let detail = |text: &str| parse(text).map(|config| config.detail());
    let jobs = |keys: &str| format!("[jobs]\ndirectory = \"/log\"\n{keys}");
    let basic = jobs("detail = \"basic\"\n");
    assert_eq!(detail(""), Ok(Detail::Basic));
    assert_eq!(detail(&jobs("")), Ok(Detail::Full));
    assert_eq!(detail(&basic), Ok(Detail::Basic));
    let traced = format!("{basic}[trace]\ndetail = \"full\"\n");
    assert_eq!(detail(&traced), Ok(Detail::Full));
    assert_eq!(detail("[jobs]\ndetail = \"full\"\n"), Ok(Detail::Basic));
    assert!(detail(&format!("{basic}formats = [\"darshan\"]\n")).is_err());
}

#[test]
fn a_flag_wins_over_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        &file,
        "[http]\nlisten = \"127.0.0.1:1\"\n[metrics]\nlinger = \"3m\"\n",
    )
    .unwrap();
    let path = file.path().to_str().unwrap();
    let cli = Cli::parse_from(["x", "--config", path, "--listen", "[::1]:2"]);
    let config = cli.flags.config().unwrap();
    assert_eq!(config.http.listen, "[::1]:2".parse().unwrap());
    assert_eq!(config.metrics.linger, Span(Duration::from_secs(180)));
    assert_eq!(config.metrics.max_series, Metrics::default().max_series);
    let missing = Cli::parse_from(["x", "--config", "/nowhere/x.toml"]);
    let error = missing.flags.config().unwrap_err().to_string();
    assert!(error.contains("/nowhere/x.toml"), "{error}");
    let wrong = Cli::parse_from(["x", "--config", path, "--max-series", "5"]);
    let error = wrong.flags.config().unwrap_err().to_string();
    assert!(error.contains("flags and environment"), "{error}");
}

#[test]
fn says_what_a_reload_cannot_change() {
    let old = Config::default();
    let mut new = Config::default();
    new.metrics.max_series = 500;
    assert!(old.fixed_changes(&new).is_empty());
    new.http.listen = "[::1]:2".parse().unwrap();
    new.trace.hook = HookChoice::Tracepoint;
    assert_eq!(old.fixed_changes(&new), ["trace.hook", "http.listen"]);
    // What is in use is said again at each reload, until the file has it.
    let used = old.reloaded(new.clone());
    assert_eq!(
        (used.metrics.max_series, &used.http, &used.trace),
        (500, &old.http, &old.trace)
    );
    assert_eq!(used.fixed_changes(&new), ["trace.hook", "http.listen"]);
    assert!(used.fixed_changes(&old).is_empty());
    new.http.tls_certificate = Some("/tls.crt".into());
    assert_eq!(old.reloaded(new).http.tls_certificate, None);
}
