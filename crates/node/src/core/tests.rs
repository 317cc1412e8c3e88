use super::*;

mod requests;
pub(crate) mod shares;
