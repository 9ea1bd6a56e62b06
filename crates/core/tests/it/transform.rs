//! Transforms and the containment of user code.

use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{Error, KeyRef, Object, ObjectName, PartialErrors, Transform};

#[derive(Clone, Debug, PartialEq)]
struct Pod {
    name: String,
    value: u32,
}

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(&self.name)
    }
}

fn pod(name: &str) -> Arc<Pod> {
    Arc::new(Pod { name: name.into(), value: 1 })
}

#[test]
fn in_place_copies_only_shared_objects() {
    let reset = Transform::in_place(|pod: &mut Pod| {
        pod.value = 0;
        Ok(())
    });
    let (own, shared) = (pod("own"), pod("shared"));
    let address = Arc::as_ptr(&own);
    let own = reset.apply(own).unwrap();
    assert_eq!((own.value, Arc::as_ptr(&own)), (0, address));
    let changed = reset.apply(shared.clone()).unwrap();
    assert_eq!((shared.value, changed.value), (1, 0));
}

#[test]
fn failures_and_panics_name_the_object() {
    let fails = Transform::new(|_: Arc<Pod>| Err("no".into()));
    let panics = Transform::new(|_: Arc<Pod>| panic!("boom"));
    let renames = Transform::in_place(|pod: &mut Pod| {
        pod.name.push('x');
        Ok(())
    });
    for (transform, message) in
        [(fails, "no"), (panics, "panicked: boom"), (renames, "changed the key to webx")]
    {
        let error = transform.apply(pod("web")).unwrap_err();
        assert!(matches!(&error, Error::Transform { key, .. } if key.name() == "web"));
        assert!(error.to_string().contains(message), "{error}");
    }
    let reset = Transform::in_place(|_: &mut Pod| Ok(()));
    assert!(matches!(reset.apply(pod("")), Err(Error::Key { .. })));
}

#[test]
fn panic_message_is_kept() {
    assert_eq!(contain(|| 1).unwrap(), 1);
    assert_eq!(contain(|| -> u32 { panic!("panic {}", 7) }).unwrap_err().to_string(), "panicked: panic 7");
    assert_eq!(contain(|| std::panic::panic_any(7)).unwrap_err().to_string(), "panicked: no message");
}

#[test]
fn errors_name_the_object_by_its_key_or_index() {
    let mut errors = PartialErrors::default();
    assert!(errors.is_empty());
    let no_key = || KeyRef::named("").check().unwrap_err();
    errors.push(Error::from(no_key()).with_index(3));
    let other_part = |name| Error::OtherPart { object: ObjectName::of(|| KeyRef::named(name)), part: None };
    errors.push(other_part("").with_index(4));
    errors.push_applied(other_part("web").with_index(5));
    let objects: Vec<_> = errors.errors().iter().map(|problem| problem.error.object().unwrap()).collect();
    let web = ObjectName::Key("web".parse().unwrap());
    assert_eq!(objects, [ObjectName::Index(3), ObjectName::Index(4), web]);
    let texts: Vec<_> = errors.errors().iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "object 3: invalid object key \"\": the name is empty",
            "object 4 (key unknown) does not belong to any part",
            "web does not belong to any part",
        ]
    );
    assert!(errors.into_result().is_err());
    assert_eq!(ObjectName::of(|| panic!("no key")), ObjectName::Index(0));
}
