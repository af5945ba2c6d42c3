//! Names of errors.

use std::borrow::Cow;

use syscalls::Errno;

/// Name of an error, positive: `ENOENT` for 2. The kernel's restart codes, which programs see as EINTR or not at all,
/// have their own names; a number without a name is `errno_N`.
pub fn name(errno: u32) -> Cow<'static, str> {
    let known = i32::try_from(errno).ok();
    match known.and_then(|errno| Errno::new(errno).name()) {
        Some(name) => name.into(),
        None => format!("errno_{errno}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_c_library() {
        for (errno, expected) in [
            (libc::ENOENT, "ENOENT"),
            (libc::EAGAIN, "EAGAIN"),
            (libc::ENOSPC, "ENOSPC"),
            (libc::ELOOP, "ELOOP"),
            (libc::EOPNOTSUPP, "EOPNOTSUPP"),
            (libc::ESTALE, "ESTALE"),
            (libc::EDQUOT, "EDQUOT"),
            (libc::EHWPOISON, "EHWPOISON"),
        ] {
            assert_eq!(name(errno as u32), expected);
        }
    }

    #[test]
    fn no_two_errors_have_one_name() {
        let mut names: Vec<_> = (1..600).map(name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 599);
    }
}
