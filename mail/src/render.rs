//! Renders a message's subject, HTML and text from a template (rules 19, 20, 21, 22 and 23). The same view
//! always renders to the same bytes. Files are read only when a renderer is created.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Map, Value};
use tera::{Context, ErrorKind, Tera};
use tidings_model::records::Recipient;

use self::{
    meter::{RenderLimit, escape},
    source::{PARTS, TemplateSources},
};
use crate::words::{LocalizedWords, Phrases};

mod check;
mod clean;
mod css;
mod functions;
mod html;
mod inline;
mod line;
mod meter;
mod source;
mod support;
mod tag;
#[cfg(test)]
mod tests;
mod view;
mod words;
mod wrap;

pub use self::{
    check::{TemplateProblem, TemplateTrial},
    clean::event_warnings,
    html::{ClickUrl, TrackingUrls},
    line::{CountLabel, CountTone},
    source::TemplateError,
    view::{
        BrandView, DigestContext, LineSection, OmittedCounts, ReaderView, TemplateView, ViewInput, ViewLinks,
        WindowSpan,
    },
};

/// Gmail clips messages at 102 KB and hides the footer.
pub const HTML_BYTES: usize = 90_000;
pub const TEXT_BYTES: usize = 256 * 1024;
pub const SUBJECT_CHARS: usize = 200;
/// Replaces a missing or broken template (rule 23).
pub const DEFAULT: &str = "default";

#[derive(Clone, PartialEq, Eq)]
pub struct RenderedEmail {
    /// One line with at most [`SUBJECT_CHARS`].
    pub subject: String,
    /// At most [`HTML_BYTES`].
    pub html: String,
    pub text: String,
    pub template: String,
    /// Why we used another template than requested. Should trigger an alert.
    pub fallback: Option<String>,
}

struct RenderedPage {
    subject: String,
    pub html: String,
    /// Includes the subject, so a headline can repeat it.
    pub context: Context,
}

pub struct TemplateRenderer {
    tera: Tera,
    sources: TemplateSources,
    words: Arc<LocalizedWords>,
    has_own: bool,
}

impl TemplateRenderer {
    /// Reads the embedded templates and catalogues, then those in `folder`, which override and extend them.
    ///
    /// # Errors
    /// A file cannot be read or is invalid (with file and line), or a digest type lacks a part.
    pub fn new(folder: Option<&Path>) -> Result<Self, TemplateError> {
        let sources = TemplateSources::from_folder(folder)?;
        let words = Arc::new(LocalizedWords::new(folder)?);
        let mut tera = Tera::default();
        functions::register(&mut tera, &words);
        tera.set_escape_fn(escape);
        // Plain text needs no escaping, but the escape hook is where we meter each value.
        tera.autoescape_on([".html", ".txt"]);
        tera.add_raw_templates(sources.templates())
            .map_err(|error| template_error(&error, None, &sources, "templates"))?;
        let has_own = sources.has_own();
        Ok(Self { tera, sources, words, has_own })
    }

    /// Built-in templates alone never do.
    #[must_use]
    pub const fn may_take_long(&self) -> bool {
        self.has_own
    }

    /// Picks the first available language, or English, without tenant overrides.
    #[must_use]
    pub fn phrases<'w>(&self, wanted: impl IntoIterator<Item = &'w str>) -> Phrases<'_> {
        self.words.choose(wanted)
    }

    /// As [`phrases`](Self::phrases), with this tenant's overrides.
    #[must_use]
    pub fn phrases_for<'w>(&self, tenant: &str, wanted: impl IntoIterator<Item = &'w str>) -> Phrases<'_> {
        self.words.choose_for(tenant, wanted)
    }

    pub fn tenants(&self) -> impl Iterator<Item = &str> {
        self.words.tenants().map(|(tenant, _)| tenant)
    }

    /// Sorted; includes `default`.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.sources.names().into_iter().map(str::to_owned).collect()
    }

    #[must_use]
    pub fn languages(&self) -> Vec<String> {
        self.words.catalogues().map(|catalogue| catalogue.tag.to_string()).collect()
    }

    #[must_use]
    pub fn template_origins(&self) -> Vec<(String, PathBuf)> {
        let origin =
            |name: &str| Some((name.to_owned(), self.sources.get(&format!("{name}/{}", PARTS[1]))?.path.clone()));
        self.sources.names().into_iter().filter_map(origin).collect()
    }

    fn check_name(&self, template: &str) -> Result<(), TemplateError> {
        let unknown = || TemplateError::Unknown { name: template.to_owned(), names: self.names() };
        if self.sources.has(template) { Ok(()) } else { Err(unknown()) }
    }

    /// Renders `template`, or `default` if that is missing or fails (rule 23).
    ///
    /// # Errors
    /// `default` also fails.
    pub fn render(&self, template: &str, view: &TemplateView) -> Result<RenderedEmail, TemplateError> {
        self.render_tracked(template, view, &TrackingUrls::NONE)
    }

    /// Like [`render`](Self::render), but tracks links, except those to unsubscribe, to the preferences and
    /// to view the message.
    ///
    /// # Errors
    /// `default` also fails.
    pub fn render_tracked(
        &self,
        template: &str,
        view: &TemplateView,
        tracker: &TrackingUrls<'_>,
    ) -> Result<RenderedEmail, TemplateError> {
        match self.render_strictly(template, view, tracker) {
            Err(error) if template != DEFAULT => {
                let rendered = self.render_strictly(DEFAULT, view, tracker)?;
                Ok(RenderedEmail { fallback: Some(error.to_string()), ..rendered })
            }
            result => result,
        }
    }

    fn render_strictly(
        &self,
        template: &str,
        view: &TemplateView,
        tracker: &TrackingUrls<'_>,
    ) -> Result<RenderedEmail, TemplateError> {
        self.check_name(template)?;
        meter::with_time_limit(|| {
            let RenderedPage { subject, html, context } = self.fitting_page(template, view, tracker)?;
            if subject.is_empty() {
                let place = format!("{template}/{}", PARTS[0]);
                return Err(TemplateError::Template { place, problem: "it is empty".into() });
            }
            let text = wrap::wrap_text(&self.text(template, &context)?);
            Ok(RenderedEmail { subject, html, text, template: template.to_owned(), fallback: None })
        })
    }

    /// Fits as many items and lines as possible (rule 21), dropping items before lines.
    fn fitting_page(
        &self,
        template: &str,
        view: &TemplateView,
        tracker: &TrackingUrls<'_>,
    ) -> Result<RenderedPage, TemplateError> {
        let all = self.page(template, view, tracker)?;
        if all.html.len() < HTML_BYTES {
            return Ok(all);
        }
        for items in (1..view.items_of_a_line()).rev() {
            let fewer = self.page(template, &view.clone().with_items(items), tracker)?;
            if fewer.html.len() < HTML_BYTES {
                return Ok(fewer);
            }
        }
        let view = view.clone().with_items(1);
        // Binary search: `fits` lines fit, `too_many` lines don't.
        let (mut fits, mut too_many) = (0, view.digest.lines.len());
        let mut best = self.page(template, &view.clone().with_lines(0), tracker)?;
        if best.html.len() >= HTML_BYTES {
            let problem = format!("{} bytes without a single line; the limit is {HTML_BYTES}", best.html.len());
            return Err(TemplateError::Template { place: format!("{template}/{}", PARTS[1]), problem });
        }
        while fits + 1 < too_many {
            let middle = usize::midpoint(fits, too_many);
            let attempt = self.page(template, &view.clone().with_lines(middle), tracker)?;
            if attempt.html.len() < HTML_BYTES {
                (fits, best) = (middle, attempt);
            } else {
                too_many = middle;
            }
        }
        Ok(best)
    }

    fn page(
        &self,
        template: &str,
        view: &TemplateView,
        tracker: &TrackingUrls<'_>,
    ) -> Result<RenderedPage, TemplateError> {
        let mut context =
            Context::from_serialize(view).map_err(|error| template_error(&error, None, &self.sources, template))?;
        let subject = clean::clean_subject(&self.part(template, PARTS[0], &context)?, SUBJECT_CHARS);
        context.insert_value("subject", subject.as_str().into());
        let html = self.html(template, &context)?;
        if html.len() >= HTML_BYTES {
            return Ok(RenderedPage { subject, html, context });
        }
        let html = html::without_unsafe_links(html);
        Ok(RenderedPage { subject, html: tracker.add_tracking(html, &view.links.untracked_links()), context })
    }

    /// Inlines the team's own styles, unless the HTML is far over the limit, since we won't send it.
    fn html(&self, template: &str, context: &Context) -> Result<String, TemplateError> {
        let html = self.part(template, PARTS[1], context)?;
        Ok(if html.len() < 2 * HTML_BYTES { inline::inline_styles(html) } else { html })
    }

    fn text(&self, template: &str, context: &Context) -> Result<String, TemplateError> {
        let text = self.part(template, PARTS[2], context)?;
        if text.len() <= TEXT_BYTES {
            return Ok(text);
        }
        let problem = format!("{} bytes; the limit is {TEXT_BYTES}", text.len());
        Err(TemplateError::Template { place: format!("{template}/{}", PARTS[2]), problem })
    }

    fn part(&self, template: &str, part: &str, context: &Context) -> Result<String, TemplateError> {
        let name = format!("{template}/{part}");
        let data = || ["digest", "message"].into_iter().filter_map(|name| context.get(name)).map(meter::size).sum();
        let data = if self.has_own { data() } else { 0 };
        let (rendered, over) = meter::meter_part(part != PARTS[1], data, || self.tera.render(&name, context));
        rendered.map_err(|error| template_error(&error, over, &self.sources, &name))
    }
}

/// `over` is the exceeded limit, if any.
fn template_error(
    error: &tera::Error,
    over: Option<RenderLimit>,
    sources: &TemplateSources,
    name: &str,
) -> TemplateError {
    let path =
        |name: &str| sources.get(name).map_or_else(|| name.to_owned(), |source| source.path.display().to_string());
    let (place, problem) = match error.kind() {
        ErrorKind::SyntaxError(report) | ErrorKind::RenderingError(report) => {
            let (file, span) = (report.filename(), report.span());
            let words =
                sources.get(file).and_then(|source| source.source_text().get(span.range.clone())).unwrap_or_default();
            let at = if words.starts_with(meter::FUNCTION) { String::new() } else { format!(" (at `{words}`)") };
            let problem = format!("{}{at}", report.message());
            (format!("{}:{}", path(file), span.start_line), problem)
        }
        other => (path(name), over.map_or_else(|| other.to_string(), |limit| limit.to_string())),
    };
    TemplateError::Template { place, problem: clean::clean_subject(&problem, 500) }
}

// Single messages. The template receives `message`, the sender's variables, `recipient` and `links`, cleaned
// like a digest's values (rule 22).

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageSample {
    message: Map<String, Value>,
    recipient: SampleRecipient,
    #[serde(default)]
    links: ViewLinks,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SampleRecipient {
    user: String,
    name: String,
}

impl SampleRecipient {
    fn in_tenant(&self, tenant: &str, zone: String) -> Recipient {
        let Self { user, name } = self;
        let (tenant, user, name) = (tenant.to_owned(), user.clone(), name.clone());
        Recipient { tenant, user, address: String::new(), name, zone, locale: String::new() }
    }
}

impl TemplateRenderer {
    /// Renders a single message in the language of `phrases`. Without a fallback: the sender gets the error.
    ///
    /// # Errors
    /// The template does not exist or fails, or renders an empty subject or at least [`HTML_BYTES`] of HTML.
    pub fn render_message(
        &self,
        template: &str,
        variables: &Map<String, Value>,
        recipient: &Recipient,
        links: &ViewLinks,
        brand: BrandView,
        phrases: Phrases<'_>,
    ) -> Result<RenderedEmail, TemplateError> {
        self.check_name(template)?;
        let context = message_context(variables, recipient, links, &brand, phrases);
        let wrong =
            |part: &str, problem: String| TemplateError::Template { place: format!("{template}/{part}"), problem };
        meter::with_time_limit(|| {
            let subject = clean::clean_subject(&self.part(template, PARTS[0], &context)?, SUBJECT_CHARS);
            if subject.is_empty() {
                return Err(wrong(PARTS[0], "it is empty".into()));
            }
            let html = self.html(template, &context)?;
            if html.len() >= HTML_BYTES {
                return Err(wrong(PARTS[1], format!("{} bytes; the limit is {HTML_BYTES}", html.len())));
            }
            let html = html::without_unsafe_links(html);
            let text = self.text(template, &context)?;
            Ok(RenderedEmail { subject, html, text, template: template.to_owned(), fallback: None })
        })
    }

    fn sample_message(
        &self,
        template: &str,
        sample: &MessageSample,
        tenant: &str,
        phrases: Phrases<'_>,
    ) -> Result<RenderedEmail, TemplateError> {
        let recipient = sample.recipient.in_tenant(tenant, String::new());
        self.render_message(template, &sample.message, &recipient, &sample.links, BrandView::default(), phrases)
    }
}

fn message_context(
    variables: &Map<String, Value>,
    recipient: &Recipient,
    links: &ViewLinks,
    brand: &BrandView,
    phrases: Phrases<'_>,
) -> Context {
    let mut context = Context::new();
    context.insert("lang", phrases.tag());
    context.insert("dir", phrases.direction());
    context.insert("tenant", &recipient.tenant);
    context.insert("brand", brand);
    context.insert("message", &clean::CleanPayload(variables));
    context.insert("recipient", &ReaderView::new(&recipient.user, recipient, &recipient.zone));
    context.insert("links", &links.safe_links());
    context
}
