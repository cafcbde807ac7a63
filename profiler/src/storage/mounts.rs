//! The mounts of one namespace, from the text of `/proc/PID/mountinfo`.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use procfs::{FromRead as _, process::MountInfos};

use super::sysfs::{Number, parse_number};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's number for it, unique among all namespaces.
    pub id: i32,
    /// Device of its file system; major 0: the file system is on none, or on more than one.
    pub number: Number,
    /// Where it is mounted, as its namespace sees it.
    pub point: PathBuf,
    /// Type of the file system, such as `ext4`.
    pub filesystem: String,
    /// What was mounted, such as `/dev/nvme1n1p1` or `server:/export`.
    pub source: Option<String>,
    /// Options of the file system with their values.
    pub options: HashMap<String, Option<String>>,
}

impl Mount {
    /// The value of an option that is a path.
    pub fn path_option(&self, name: &str) -> Option<&Path> {
        self.options.get(name)?.as_deref().map(Path::new)
    }
}

/// Takes the text apart.
///
/// # Errors
/// A line that is not of the kernel's form.
pub fn parse(text: &str) -> Result<Vec<Mount>> {
    let mounts = MountInfos::from_read(text.as_bytes()).context("mountinfo has a line of an unknown form")?;
    let mounts = mounts.0.into_iter().map(|mount| {
        let number = parse_number(&mount.majmin)
            .with_context(|| format!("mountinfo has {:?} where a device number should be", mount.majmin))?;
        let options = mount.super_options.into_iter();
        Ok(Mount {
            id: mount.mnt_id,
            number,
            point: PathBuf::from(unescape(&mount.mount_point.to_string_lossy())),
            filesystem: mount.fs_type,
            source: mount.mount_source.map(|source| unescape(&source)),
            options: options.map(|(name, value)| (name, value.map(|value| unescape(&value)))).collect(),
        })
    });
    mounts.collect()
}

/// Undoes the kernel's octal escapes (`\040` for a blank). What is no escape stays as it is.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = if *first == b'\\' { octal(tail) } else { None };
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte that the first three digits stand for.
fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let text = "36 35 98:0 /mnt1 /mnt/two\\040words rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue\n\
                    37 35 0:44 / /merged rw - overlay overlay rw,upperdir=/up\\054comma,workdir=/work\n\
                    38 35 0:45 / /x rw - tmpfs none rw\n";
        let mounts = parse(text).unwrap();
        assert_eq!(mounts[0].number, (98, 0));
        assert_eq!(mounts[0].point, Path::new("/mnt/two words"));
        assert_eq!(mounts[0].source.as_deref(), Some("/dev/root"));
        assert_eq!(mounts[1].path_option("upperdir"), Some(Path::new("/up,comma")));
        assert_eq!((mounts[2].id, mounts[2].filesystem.as_str()), (38, "tmpfs"));
        assert_eq!(mounts[2].source, None);
    }

    #[test]
    fn other_lines_are_refused() {
        for wrong in ["36 35 98:0 /", "36 35 9x:0 / / rw - ext4 /dev/vda rw", "x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_escapes_are_undone() {
        for (escaped, plain) in [
            ("a\\040b\\011", "a b\t"),
            ("\\04", "\\04"),
            ("\\", "\\"),
            ("\\999x", "\\999x"),
            ("\\134040", "\\040"),
        ] {
            assert_eq!(unescape(escaped), plain, "{escaped}");
        }
    }
}
