//! Makes the subject, HTML and text of a digest from a template.
