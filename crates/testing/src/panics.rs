//! Expected panics, which need not be in the output of a test, and panics that are hard to contain.

use std::sync::Once;

use parking_lot::Mutex;

static HIDDEN: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Hides the panics with exactly this message from the output of this process. They are not caught.
pub fn hide(message: &'static str) {
    let mut hidden = HIDDEN.lock();
    if !hidden.contains(&message) {
        hidden.push(message);
    }
    drop(hidden);
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let hidden = panic.payload_as_str().is_some_and(|message| HIDDEN.lock().contains(&message));
            if !hidden {
                before(panic);
            }
        }));
    });
}

/// Panics with a payload that panics again when it is dropped.
pub fn panic_twice() -> ! {
    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("payload dropped"));
        }
    }

    std::panic::resume_unwind(Box::new(PanicsOnDrop))
}
