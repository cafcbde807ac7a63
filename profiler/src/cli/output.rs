//! The file of `-o`: opened before anything is measured, in place only when it is whole.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use super::Exit;
use crate::{model::profile::Profile, report::json};

/// A file on its way.
pub struct Output {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<File>,
}

impl Output {
    /// Opens a file beside the one wanted.
    pub fn create(path: &Path) -> Result<Output, Exit> {
        if path.is_dir() {
            return Err(Exit::Output(format!(
                "cannot write {}: it is a directory, need a file name",
                path.display()
            )));
        }
        let name = path
            .file_name()
            .ok_or_else(|| Exit::Output(format!("cannot write {}: no file name", path.display())))?;
        let mut temporary = name.to_owned();
        temporary.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(temporary);
        match File::create(&temporary) {
            Ok(file) => Ok(Output { path: path.to_owned(), temporary, file: Some(file) }),
            Err(error) => Err(Exit::Output(format!(
                "cannot write {}: {error}; need a directory that exists and is writable",
                path.display()
            ))),
        }
    }

    /// Writes the profile and puts the file in its place.
    pub fn finish(mut self, profile: &Profile) -> Result<(), Exit> {
        self.write(profile)
            .map_err(|error| Exit::Output(format!("cannot write {}: {error}", self.path.display())))
    }

    fn write(&mut self, profile: &Profile) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let mut writer = BufWriter::new(file);
        json::write(profile, &mut writer)?;
        writer.flush()?;
        writer.get_ref().sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        self.temporary = PathBuf::new();
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.temporary.as_os_str().is_empty() {
            // Nothing to be done if it is gone already.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
