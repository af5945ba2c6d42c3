//! The line of an instruction, by a code object's table of locations (PEP 626, as CPython 3.11 and later keep it).

/// Kinds of entries from here on; those below have columns alone.
const ONE_LINE: u8 = 10;
const NO_COLUMNS: u8 = 13;
const LONG: u8 = 14;
const NONE: u8 = 15;

/// The line of code unit `unit` of a code object that begins at `first_line`; none where the table gives it no line. An error
/// where the table ends before the unit.
pub fn line_of(table: &[u8], first_line: u32, unit: u64) -> Result<Option<u32>, Ends> {
    let mut bytes = table.iter().copied();
    let mut line = i64::from(first_line);
    let mut begin = 0;
    while let Some(head) = bytes.next() {
        let kind = head >> 3 & 15;
        let units = u64::from(head & 7) + 1;
        match kind {
            NONE => {}
            LONG => {
                line = line.saturating_add(signed(&mut bytes)?);
                for _ in 0..3 {
                    unsigned(&mut bytes)?;
                }
            }
            NO_COLUMNS => line = line.saturating_add(signed(&mut bytes)?),
            ONE_LINE.. => {
                line = line.saturating_add(i64::from(kind - ONE_LINE));
                bytes.next().ok_or(Ends)?;
                bytes.next().ok_or(Ends)?;
            }
            _ => drop(bytes.next().ok_or(Ends)?),
        }
        if (begin..begin + units).contains(&unit) {
            return Ok(u32::try_from(line).ok().filter(|_| kind != NONE));
        }
        begin += units;
    }
    Err(Ends)
}

/// The table has no entry for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends;

/// A number in pieces of six bits, lowest first.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> Result<u64, Ends> {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let byte = bytes.next().ok_or(Ends)?;
        if shift < u64::BITS {
            value |= u64::from(byte & 63) << shift;
        }
        if byte & 64 == 0 {
            return Ok(value);
        }
        shift += 6;
    }
}

/// As [`unsigned`], with the sign in the lowest bit.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Result<i64, Ends> {
    let value = unsigned(bytes)?;
    let size = i64::try_from(value >> 1).map_err(|_| Ends)?;
    Ok(if value & 1 == 0 { size } else { -size })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde::Deserialize;

    use super::*;

    /// Prints every code object of this interpreter's library that it can compile: table, first line, and the line of each unit by
    /// its own account.
    const TELL: &str = r#"
import glob, json, os, sys
def walk(code):
    yield code
    for const in code.co_consts:
        if hasattr(const, 'co_code'):
            yield from walk(const)
for path in sorted(glob.glob(os.path.dirname(os.__file__) + '/*.py'))[:40]:
    try:
        whole = compile(open(path, encoding='utf-8').read(), path, 'exec')
    except Exception:
        continue
    for code in walk(whole):
        lines = [position[0] for position in code.co_positions()]
        print(json.dumps([list(code.co_linetable), code.co_firstlineno, lines]))
"#;

    #[derive(Deserialize)]
    struct Told(Vec<u8>, u32, Vec<Option<u32>>);

    #[test]
    fn lines_are_those_that_the_interpreter_tells() {
        let mut versions = 0;
        for name in [
            "python3.11",
            "python3.12",
            "python3.13",
            "python3.14",
            "python3.15",
            "python3",
        ] {
            let asked = Command::new(name)
                .args(["-c", "import sys; print(sys.version_info >= (3, 11))"])
                .output();
            if !asked.is_ok_and(|output| output.stdout == b"True\n") {
                continue;
            }
            let output = Command::new(name).args(["-c", TELL]).output().unwrap();
            assert!(output.status.success(), "{name}: {output:?}");
            let mut units = 0;
            for object in String::from_utf8(output.stdout).unwrap().lines() {
                let Told(table, first, lines) = serde_json::from_str(object).unwrap();
                for (unit, line) in lines.iter().enumerate() {
                    assert_eq!(line_of(&table, first, unit as u64), Ok(*line), "{name}");
                    units += 1;
                }
                assert_eq!(line_of(&table, first, lines.len() as u64), Err(Ends));
            }
            assert!(units > 100_000, "{name}: {units} units");
            versions += 1;
        }
        assert!(
            versions > 0,
            "no Python of 3.11 or later: `cargo xtask setup` installs one"
        );
    }

    #[test]
    fn a_table_that_is_cut_or_random_gives_no_panic() {
        let table = [
            0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ];
        for length in 0..table.len() {
            let _ = line_of(&table[..length], 1, 3);
        }
        assert_eq!(line_of(&[], 1, 0), Err(Ends));
        assert_eq!(line_of(&[0xe8, 0xff], 1, 0), Err(Ends));
        // Two moves of as many lines as a number holds, each in eleven pieces of six bits.
        let most = [&[0xe8][..], &[0x7e], &[0x7f; 9], &[0x0f]].concat();
        assert_eq!(line_of(&[&most[..], &most].concat(), 1, 1), Ok(None));
    }
}
