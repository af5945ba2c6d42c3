//! The framing of TensorBoard's files (TFRecord): length, its checksum, the record, its checksum.
//!
//! Checksums are CRC-32C (Castagnoli), masked as TensorFlow does it.

use std::io::{self, Write};

/// The polynomial, its bits reversed.
const CASTAGNOLI: u32 = 0x82f6_3b78;
const MASK: u32 = 0xa282_ead8;

/// The checksum by the next byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 0 { 0 } else { CASTAGNOLI };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| sum >> 8 ^ TABLE[(sum as u8 ^ byte) as usize];
    !bytes.iter().fold(!0, step)
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    let sum = crc32c(bytes);
    sum.rotate_right(15).wrapping_add(MASK).to_le_bytes()
}

/// Writes one record.
pub fn write(record: &[u8], mut out: impl Write) -> io::Result<()> {
    let length = (record.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked(&length))?;
    out.write_all(record)?;
    out.write_all(&masked(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720, B.4.
    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn a_record_stands_between_its_checksums() {
        let mut out = Vec::new();
        write(b"abc", &mut out).unwrap();
        assert_eq!(out.len(), 8 + 4 + 3 + 4);
        assert_eq!(out[..8], 3_u64.to_le_bytes());
        assert_eq!(&out[12..15], b"abc");
    }
}
