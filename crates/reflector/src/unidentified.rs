//! Unidentified events, which may concern any object, and unidentified objects of a list, whose keys are unknown.

use kinformer_core::internal::try_accessors;
use kinformer_core::{Object, ResourceVersion};

use crate::pager::FullList;
use crate::{DecodeError, SourceError, WatchEvent};

/// The number of unidentified objects that an error describes.
const DESCRIBED: usize = 10;

/// Returns the error of an event that may concern any object; `None` if the event has a key and a type.
pub(crate) fn unidentified_event(event: &DecodeError) -> Option<SourceError> {
    let is_unidentified = event.key.is_none() || event.event_type.is_none();
    is_unidentified.then(|| SourceError::UnidentifiedEvent { source: Box::new(event.clone()) })
}

/// Returns the version of an event; unset without one. Calls the accessor of the object, which may panic.
pub(crate) fn version_of<T: Object>(event: &WatchEvent<T>) -> ResourceVersion {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            object.resource_version()
        }
        WatchEvent::Bookmark { version, .. } => version.clone(),
        // An unidentified event proves nothing about versions.
        WatchEvent::Undecodable(error) if unidentified_event(error).is_some() => ResourceVersion::UNSET,
        WatchEvent::Undecodable(error) => error.resource_version.clone(),
        WatchEvent::Unexpected { resource_version, .. } => resource_version.clone(),
    }
}

/// Removes the unidentified objects from a list. Returns their number and the first of them.
pub(crate) fn take_unidentified<T: Object>(list: &mut FullList<T>) -> (usize, Vec<DecodeError>) {
    let mut bad_positions: Vec<_> = list.undecodable.iter().filter_map(|error| error.position).collect();
    bad_positions.sort_unstable();
    let mut unidentified = Vec::new();
    let mut count = 0;
    let mut note = |error: DecodeError| {
        count += 1;
        if unidentified.len() < DESCRIBED {
            unidentified.push(error);
        }
    };
    for error in list.undecodable.extract_if(.., |error| error.key.is_none()) {
        note(error);
    }
    let mut among_objects = 0;
    list.objects.retain(|object| {
        let position = among_objects;
        among_objects += 1;
        let error = match try_accessors(|| object.key().check()) {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.into(),
            Err(panic) => panic,
        };
        note(DecodeError::new(error).position(in_list(position, &bad_positions)));
        false
    });
    (count, unidentified)
}

/// Converts a position among the decoded objects to the position in the list.
fn in_list(among_objects: usize, undecodable: &[usize]) -> usize {
    undecodable.iter().fold(among_objects, |position, bad| position + usize::from(*bad <= position))
}
