//! Files that only their owner can read.

use std::io::{self, Write};
use std::path::Path;

/// Writes a file that only its owner can read, and replaces an existing one atomically.
///
/// If this fails, the existing file is unchanged. A symbolic link is neither followed nor replaced, since its creator
/// would choose the file that is written. Other files that are not regular are not replaced either.
///
/// # Errors
/// The path is not that of a regular file, or the file cannot be written.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => {
            return Err(io::Error::other("it is a symbolic link; name the file that it points to"));
        }
        Ok(there) if !there.is_file() => return Err(io::Error::other("it is not a regular file")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The temporary file is readable by its owner only, and is removed unless it is renamed.
    let mut file = tempfile::Builder::new().prefix(".kinformer-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_can_read_the_new_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        for before in [None, Some(0o644), Some(0o666)] {
            if let Some(before) = before {
                fs::write(&path, "something longer than what comes").expect("written");
                fs::set_permissions(&path, fs::Permissions::from_mode(before)).expect("set");
            }
            // Open handles still read the old content.
            let reader = fs::File::open(&path).ok();
            write(&path, "secret").expect("written");
            assert_eq!(
                (fs::read_to_string(&path).expect("there"), mode(&path)),
                ("secret".to_owned(), 0o600)
            );
            if let Some(reader) = reader {
                assert_ne!(io::read_to_string(reader).expect("readable"), "secret");
            }
        }
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1, "nothing else is left");
    }

    #[test]
    fn links_and_irregular_files_are_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "before").expect("written");
        for points_to in [&target, &folder.path().join("missing")] {
            symlink(points_to, &link).expect("made");
            assert!(write(&link, "secret").expect_err("a link").to_string().contains("symbolic link"));
            assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
            fs::remove_file(&link).expect("removed");
        }
        assert_eq!(fs::read_to_string(&target).expect("there"), "before");
        assert!(!folder.path().join("missing").exists());
        for path in [folder.path(), Path::new("/dev/null")] {
            assert!(write(path, "secret").expect_err("no file").to_string().contains("not a regular file"));
        }
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1, "nothing else is left");
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("missing").join("config");
        assert_eq!(write(&path, "secret").expect_err("no folder").kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
    }
}
