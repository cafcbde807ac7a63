//! The file of `-o`: opened before anything is measured. A regular file is in place only when it is whole; a device or
//! a pipe is written to, never replaced.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use super::Exit;
use crate::{model::profile::Profile, report::json};

/// A file on its way.
pub struct Output {
    path: PathBuf,
    way: Way,
}

enum Way {
    /// Written beside its place and renamed when whole.
    Beside { temporary: Temporary, place: PathBuf },
    /// A device, open.
    Open(File),
    /// A named pipe: opening it waits for its reader.
    Pipe,
}

impl Output {
    /// Opens what can be opened before the result is there.
    ///
    /// A `private` file that is new is for its owner only.
    pub fn create(path: &Path, private: bool) -> Result<Output, Exit> {
        if path.as_os_str() == "-" {
            return Err(Exit::Usage(
                "-o takes a file; for JSON on standard output use --format json".to_owned(),
            ));
        }
        let way = way(path, private).map_err(|error| {
            Exit::Output(format!(
                "cannot write {}: {error}; need a file in a directory that exists and is writable",
                path.display()
            ))
        })?;
        Ok(Output { path: path.to_owned(), way })
    }

    /// Writes the profile.
    pub fn finish(self, profile: &Profile) -> Result<(), Exit> {
        let Output { path, way } = self;
        let written = match way {
            Way::Open(file) => write(&file, profile),
            Way::Pipe => OpenOptions::new().write(true).open(&path).and_then(|file| write(&file, profile)),
            Way::Beside { mut temporary, place } => temporary.finish(profile, &place),
        };
        written.map_err(|error| Exit::from_write(&path.display().to_string(), &error))
    }
}

fn way(path: &Path, private: bool) -> io::Result<Way> {
    let place = match fs::metadata(path) {
        Ok(found) if found.file_type().is_fifo() => return Ok(Way::Pipe),
        Ok(found) if !found.is_file() => {
            return OpenOptions::new().write(true).open(path).map(Way::Open);
        }
        // Through a symbolic link to the file it names.
        Ok(_) => {
            OpenOptions::new().write(true).open(path)?;
            path.canonicalize()?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let name = place.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = place.with_file_name(beside);
    let mode = if private { 0o600 } else { 0o666 };
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    let temporary = Temporary { path: beside, file };
    if let Ok(found) = fs::metadata(&place) {
        temporary.file.set_permissions(found.permissions())?;
    }
    Ok(Way::Beside { temporary, place })
}

fn write(file: &File, profile: &Profile) -> io::Result<()> {
    let mut writer = BufWriter::new(file);
    json::write(profile, &mut writer)?;
    writer.flush()
}

/// A file that is gone again unless it was finished.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn finish(&mut self, profile: &Profile, place: &Path) -> io::Result<()> {
        write(&self.file, profile)?;
        self.file.sync_all()?;
        fs::rename(&self.path, place)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the rename there is nothing of that name.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn devices_stay_devices_and_links_stay_links() {
        assert!(matches!(way(Path::new("/dev/null"), false).unwrap(), Way::Open(_)));
        let directory = std::env::temp_dir().join(format!("pgstall-output-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let (file, link) = (directory.join("file"), directory.join("link"));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        match way(&link, false).unwrap() {
            Way::Beside { place, temporary } => {
                assert_eq!(place, file.canonicalize().unwrap());
                assert!(temporary.path.exists());
            }
            Way::Open(_) | Way::Pipe => panic!("a link to a file is a file"),
        }
        let left: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        assert!(way(&directory, false).is_err());
        assert!(way(&directory.join("missing/file"), false).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
