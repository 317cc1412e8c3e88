use super::*;

mod requests;
mod shares;
