//! Placeholder until the tasks arrive in the same change set.
fn main() {}
