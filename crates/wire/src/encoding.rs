//! The encodings of answers.

/// Expands a macro with the list of the encodings: the name of each one's codec and enum variant, and its folder.
macro_rules! encodings {
    ($macro:ident) => {
        // One line for each encoding; nothing outside of its folder says more of it.
        $macro! {
            /// Every kind has it.
            #[default]
            Json in json;
            /// Built-in kinds have it; it is a third of the work for the server, and for us.
            Protobuf in protobuf;
        }
    };
}
pub(crate) use encodings;

macro_rules! encoding {
    ($($(#[$attribute:meta])* $name:ident in $folder:ident;)+) => {
        /// How a server writes its answers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Encoding {
            $($(#[$attribute])* $name,)+
        }

        impl Encoding {
            /// Every encoding.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its name in lower case, for example `json`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($folder),)+
                }
            }
        }
    };
}

encodings!(encoding);
