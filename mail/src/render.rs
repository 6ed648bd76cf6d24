//! Renders the subject, HTML and text of a message from a template (rules 19 to 23). The same view always renders the same
//! bytes. A renderer reads files only when it is created.

mod brand;
mod check;
mod check_words;
mod clean;
mod code;
mod css;
mod doubts;
mod escape;
mod functions;
mod html;
mod inline;
mod line;
mod local;
mod message;
mod meter;
mod metered;
mod renderer;
mod source;
mod support;
mod tag;
mod tracker;
mod view;
mod words;
mod wrap;

#[cfg(test)]
mod tests;

pub use brand::Brand;
pub use check::{Problem, Trial};
pub use doubts::doubts;
pub use line::{Sum, Tone};
pub use renderer::{DEFAULT, HTML_BYTES, Rendered, Renderer, SUBJECT_CHARS, TEXT_BYTES};
pub use source::Error;
pub use tracker::{Click, Tracker};
pub use view::{Digest, Input, Links, More, Reader, Section, Span, View};
