//! Time zones by their names, from the database of the machine.

use std::collections::HashMap;
use std::path::Path;

use jiff::tz::TimeZone;
use parking_lot::Mutex;

/// Where the database may be.
const FOLDERS: [&str; 2] = ["/usr/share/zoneinfo", "/usr/lib/zoneinfo"];
/// How many zones are kept.
const MAX_KEPT: usize = 64;

/// The zones that were looked up; `None` for those that do not exist.
static KEPT: Mutex<Option<HashMap<String, Option<TimeZone>>>> = Mutex::new(None);

/// Whether the machine has a database.
pub(crate) fn are_known() -> bool {
    FOLDERS.iter().any(|folder| Path::new(folder).is_dir())
}

/// Returns a zone; `None` if there is none with this name.
pub(crate) fn find(name: &str) -> Option<TimeZone> {
    if !has_form(name) {
        return None;
    }
    let kept = KEPT.lock().get_or_insert_default().get(name).cloned();
    kept.unwrap_or_else(|| {
        let zone = read(name);
        let mut kept = KEPT.lock();
        let kept = kept.get_or_insert_default();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(name.to_owned(), zone.clone());
        zone
    })
}

/// Whether a name can be that of a zone: a path without parents.
fn has_form(name: &str) -> bool {
    name.len() <= 64
        && name.split('/').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_+".contains(c))
        })
}

fn read(name: &str) -> Option<TimeZone> {
    let file = FOLDERS.iter().find_map(|folder| std::fs::read(Path::new(folder).join(name)).ok())?;
    TimeZone::tzif(name, &file).ok()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn zones_are_those_of_the_machine() {
        let summer = Timestamp::from_second(1_782_864_000).unwrap();
        let offset = find("Europe/Berlin").map(|zone| zone.to_offset(summer).seconds());
        assert_eq!(offset, are_known().then_some(7200));
        for name in ["Europe/Moon", "Europe", "", "../zoneinfo/UTC", "/UTC", "Europe//Berlin", "tzdata.zi"] {
            assert!(find(name).is_none(), "{name}");
        }
    }
}
