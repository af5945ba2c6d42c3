//! The path of a log: `YYYY/MM/DD/USER_EXE_UNIT_NODE_START.d`.

use std::path::{Path, PathBuf};

use super::about::About;
use iotrace_model::run::rfc3339;

/// Longest part of a name, bytes.
const MAX_PART_BYTES: usize = 48;

/// The directories by date, and the name of the log in them.
pub fn path(about: &About) -> (Vec<String>, String) {
    let time = rfc3339(about.start_unix_ns);
    let (date, time) = time.split_at_checked(10).unwrap_or((&time, ""));
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    let user = about.user.map_or("root".into(), |uid| uid.to_string());
    let exe = PathBuf::from(&about.executable);
    let exe = exe.file_name().unwrap_or_default().to_string_lossy();
    let parts = [user.as_str(), &exe, &about.unit, &about.host, &digits];
    let name = parts.map(plain).join("_");
    (
        date.split('-').map(ToOwned::to_owned).collect(),
        format!("{name}.d"),
    )
}

/// Whether a log at this path is of the unit, the node and the moment that it says: its user may write to what is in it, but not
/// rename it.
pub fn is_of(log: &Path, about: &About) -> bool {
    let (date, name) = path(about);
    let parts = |name: &str| -> Vec<String> {
        // Neither its user nor its program: they are known later than the name.
        name.split('_').skip(2).map(ToOwned::to_owned).collect()
    };
    let own = log.file_name().unwrap_or_default().to_string_lossy();
    let day: PathBuf = date.iter().collect();
    let is_of_day = log.parent().is_some_and(|parent| parent.ends_with(&day));
    is_of_day && parts(&own) == parts(&name)
}

/// A part of a name without anything that a shell or a path knows.
fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let plain = text.chars().map(|c| if is_plain(c) { c } else { '-' });
    let plain: String = plain.take(MAX_PART_BYTES).collect();
    match plain.trim_start_matches('.') {
        "" => "unknown".into(),
        plain => plain.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_component_whatever_users_write() {
        let about = About {
            unit: "slurm:../../etc\n".into(),
            executable: "/home/x/..".into(),
            host: "n_1".repeat(100),
            start_unix_ns: 1_763_682_780_000_000_000,
            ..About::default()
        };
        let (date, name) = path(&about);
        assert_eq!(date, ["2025", "11", "20"]);
        assert!(
            name.starts_with("root_unknown_slurm-..-..-etc-_n-1"),
            "{name}"
        );
        assert!(name.len() < 255 && !name.contains('/'), "{name}");
        let log = PathBuf::from_iter(["/logs", "2025", "11", "20", &name]);
        let later = About {
            executable: "/bin/other".into(),
            user: Some(1),
            ..about.clone()
        };
        assert!(is_of(&log, &about) && is_of(&log, &later));
        for forged in [
            About {
                unit: "slurm:1".into(),
                ..about.clone()
            },
            About {
                start_unix_ns: 0,
                ..about
            },
        ] {
            assert!(!is_of(&log, &forged));
        }
    }
}
