//! What all views are: bytes that are held or borrowed, and one test that a header is there and keeps what it claims.

/// Defines a view, the length of its header as a constant of the module and of the view, and how a view is made. Behind
/// `claims` stands the method that tests the lengths which the header itself claims, and what it refuses.
macro_rules! view {
    (
        $(#[$what:meta])* $name:ident,
        $len_what:literal $len:ident = $n:literal
        $(, $(#[$refused:meta])* claims $claims:ident)?
    ) => {
        #[doc = $len_what]
        pub const $len: usize = $n;

        $(#[$what])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name<T: AsRef<[u8]>> {
            buffer: T,
        }

        impl<T: AsRef<[u8]>> $name<T> {
            #[doc = $len_what]
            pub const $len: usize = $len;

            #[doc = concat!("A view without the length check: accessors of fixed fields panic under ", $n, " bytes.")]
            #[inline]
            pub const fn new_unchecked(buffer: T) -> $name<T> {
                $name { buffer }
            }

            /// A view whose accessors cannot panic.
            ///
            /// # Errors
            #[doc = concat!("`Truncated` under ", $n, " bytes.")]
            $($(#[$refused])*)?
            #[inline]
            pub fn new_checked(buffer: T) -> crate::Result<$name<T>> {
                let view = $name { buffer };
                view.check_len()?;
                Ok(view)
            }

            #[inline]
            fn check_len(&self) -> crate::Result<()> {
                if self.buffer.as_ref().len() < $len {
                    return Err(crate::WireError::Truncated);
                }
                $(self.$claims()?;)?
                Ok(())
            }

            /// The bytes back.
            #[inline]
            pub fn into_inner(self) -> T {
                self.buffer
            }
        }
    };
}

pub(crate) use view;
