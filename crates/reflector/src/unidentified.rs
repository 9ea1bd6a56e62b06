//! Unidentified events, which may concern any object, and unidentified objects of a list, whose keys are unknown.

use kinformer_core::internal::contain;
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
    let mut next = 0;
    list.objects.retain(|object| {
        let index = next;
        next += 1;
        let error = match contain(|| object.key().check()) {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.into(),
            Err(panic) => panic,
        };
        note(DecodeError::new(error).index(index));
        false
    });
    (count, unidentified)
}
