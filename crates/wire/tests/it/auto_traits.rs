//! Every public type is Send and Sync.

use kinformer_wire::*;
use static_assertions::assert_impl_all;

assert_impl_all!(ListDecoder: Send, Sync);
assert_impl_all!(WatchDecoder: Send, Sync);
assert_impl_all!(ListEnvelope: Send, Sync);
assert_impl_all!(Identity: Send, Sync);
assert_impl_all!(RawEvent<'static>: Send, Sync);
assert_impl_all!(Error: Send, Sync, std::error::Error);
assert_impl_all!(ObjectDecoder: Send, Sync);
assert_impl_all!(Encoding: Send, Sync);
assert_impl_all!(ProtobufProblem: Send, Sync, std::error::Error);
assert_impl_all!(TypeMeta<'static>: Send, Sync);
assert_impl_all!(FieldPath: Send, Sync);
assert_impl_all!(Packed<String>: Send, Sync);
assert_impl_all!(Decoded<String>: Send, Sync);
