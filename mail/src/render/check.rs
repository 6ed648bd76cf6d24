//! Renders every template with its sample, for `./dev check` and `tidings template`.

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use tera::{Map, Value};
use tidings_model::{
    Key,
    records::{Contents, Recipient},
    settings, time_zone,
    window::Window,
};
use uuid::Uuid;

use super::{
    brand::Brand,
    check_words, clean, html, inline, message,
    renderer::{HTML_BYTES, Page, Rendered, Renderer, SUBJECT_CHARS},
    source::{Error, PARTS, SAMPLE, Source},
    tracker::Tracker,
    view::{Input, Links, View, items_of},
};
use crate::words::Phrases;

/// A fault of a template or of a file of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The digest type, or the file.
    pub place: String,
    /// The fault, with file and line if known.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// The place of a fault in the data of a [`Trial`].
const DATA: &str = "your JSON";

/// The data and the reader of a trial.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trial<'a> {
    /// JSON as in a `sample.json`. Default: the template's sample.
    pub data: Option<&'a str>,
    /// Language (BCP 47). Default: English.
    pub locale: Option<&'a str>,
    /// IANA name of a time zone. Default: that of the data. A single message shows none.
    pub zone: Option<&'a str>,
}

/// The content of a `sample.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    digest_id: Uuid,
    opened_at: Timestamp,
    due_at: Timestamp,
    zone: String,
    cadence: String,
    recipient: Name,
    links: Links,
    contents: Contents,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    user: String,
    name: String,
}

impl Renderer {
    /// Finds the faults of all templates by rendering each one's sample in each language, and those of the words.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let of_words = check_words::faults(&self.words, &self.sources).into_iter();
        let of_words = of_words.map(|check_words::Fault { place, problem }| Problem { place, problem });
        self.names().iter().flat_map(|template| self.check_template(template)).chain(of_words).collect()
    }

    /// Finds the faults of one template by rendering its sample in each language.
    #[must_use]
    pub fn check_template(&self, template: &str) -> Vec<Problem> {
        let problems = self.problems(template).unwrap_or_else(|error| vec![error.to_string()]);
        problems.into_iter().map(|problem| Problem { place: template.to_owned(), problem }).collect()
    }

    /// Finds what large email clients do not support of the team's own templates, and the styles that stay in `<style>` or are too weak
    /// there in a sample. The place is a file with its line.
    #[must_use]
    pub fn warnings(&self) -> Vec<Problem> {
        let mut weak = inline::Weak::new();
        for html in self.names().iter().filter_map(|template| self.html_of_sample(template).ok()) {
            for (rule, names) in inline::weak(&html) {
                weak.entry(rule).or_default().extend(names);
            }
        }
        self.sources.remarks(&weak).into_iter().map(|(place, problem)| Problem { place, problem }).collect()
    }

    /// Renders the HTML of a sample, before styles are inlined.
    fn html_of_sample(&self, template: &str) -> Result<String, Error> {
        let phrases = self.phrases(None);
        let context = match self.single(template) {
            Some(sample) => self.sample_context(template, &sample, phrases)?,
            None => self.page(template, &self.sample(template, phrases)?, &Tracker::NONE)?.context,
        };
        self.part(template, PARTS[1], &context)
    }

    /// Renders `template` with its sample, in the language `locale` or in English.
    ///
    /// # Errors
    /// The template or its sample does not exist, the sample cannot be read, or the template fails with the sample.
    pub fn preview(&self, template: &str, locale: Option<&str>) -> Result<Rendered, Error> {
        self.try_out(template, &Trial { locale, ..Trial::default() })
    }

    /// Renders `template` with other data than its sample, or for another reader.
    ///
    /// # Errors
    /// As for [`Renderer::preview`], or the data or the time zone cannot be read.
    pub fn try_out(&self, template: &str, trial: &Trial<'_>) -> Result<Rendered, Error> {
        let sample = self.source_of_sample(template)?;
        let json = trial.data.unwrap_or(&sample.text);
        let wrong = |problem: String| {
            let place = trial.data.map_or_else(|| sample.path.display().to_string(), |_| DATA.to_owned());
            Error::Template { place, problem }
        };
        let phrases = self.phrases(trial.locale);
        if self.single(template).is_some() {
            let sample = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
            return self.sample_message(template, &sample, "", Brand::default(), phrases);
        }
        let view = view_of(json, template, trial.zone, phrases).map_err(wrong)?;
        self.render_strictly(template, &view, &Tracker::NONE)
    }

    /// Returns the `sample.json` of `template`.
    ///
    /// # Errors
    /// The template or its sample does not exist.
    pub fn sample_json(&self, template: &str) -> Result<&str, Error> {
        self.source_of_sample(template).map(|sample| sample.text.as_str())
    }

    /// Returns the view of the sample of `template`.
    ///
    /// # Errors
    /// The template or its sample does not exist, or the sample cannot be read.
    pub(super) fn sample(&self, template: &str, phrases: Phrases<'_>) -> Result<View, Error> {
        let source = self.source_of_sample(template)?;
        view_of(&source.text, template, None, phrases)
            .map_err(|problem| Error::Template { place: source.path.display().to_string(), problem })
    }

    fn source_of_sample(&self, template: &str) -> Result<&Source, Error> {
        if !self.sources.has(template) {
            return Err(Error::Unknown { name: template.to_owned(), names: self.names() });
        }
        let file = format!("{template}/{SAMPLE}");
        let missing = || Error::Template { place: file.clone(), problem: "there is no sample".into() };
        self.sources.get(&file).ok_or_else(missing)
    }

    /// Returns the sample of `template` if it is the template of a single message.
    fn single(&self, template: &str) -> Option<message::Sample> {
        serde_json::from_str(&self.sources.get(&format!("{template}/{SAMPLE}"))?.text).ok()
    }

    /// Finds the faults of one template. Returns an error if the template renders nothing.
    fn problems(&self, template: &str) -> Result<Vec<String>, Error> {
        let mut problems = Vec::new();
        let everybodys = self.words.catalogues().map(|catalogue| ("", catalogue.tag.to_string()));
        let tenants = self.words.tenants();
        let tenants = tenants.flat_map(|(tenant, own)| own.values().map(move |own| (tenant, own.tag.to_string())));
        for (tenant, tag) in everybodys.chain(tenants) {
            let phrases = self.phrases_for(tenant, [tag.as_str()]);
            let found = match self.single(template) {
                Some(sample) => {
                    let html = self.sample_message(template, &sample, tenant, Brand::default(), phrases)?.html;
                    html::unbalanced(&html).map(|problem| unbalanced(template, &problem)).into_iter().collect()
                }
                None => self.problems_in(template, tenant, phrases)?,
            };
            // A fault that does not depend on the language is one fault.
            problems.extend(found.into_iter().filter(|problem| !problems.contains(problem)).collect::<Vec<_>>());
        }
        Ok(problems)
    }

    fn problems_in(&self, template: &str, tenant: &str, phrases: Phrases<'_>) -> Result<Vec<String>, Error> {
        let full = View { tenant: tenant.to_owned(), ..self.sample(template, phrases)? };
        let mut problems = Vec::new();
        let lines = full.digest.groups.len();
        let Page { html, context, .. } = self.page(template, &full, &Tracker::NONE)?;
        if html.len() >= HTML_BYTES {
            let bytes = html.len();
            problems
                .push(format!("the sample makes {bytes} bytes of HTML in {}; the limit is {HTML_BYTES}", full.lang));
        }
        problems.extend(html::unbalanced(&html).map(|problem| unbalanced(template, &problem)));
        self.render_strictly(template, &full, &Tracker::NONE)?;
        let chars = clean::subject(&self.part(template, PARTS[0], &context)?, usize::MAX).chars().count();
        if chars > SUBJECT_CHARS {
            problems.push(format!(
                "the subject of the sample has {chars} characters in {}, and is cut at {SUBJECT_CHARS}",
                full.lang
            ));
        }
        // A template must also work for a tenant with looks of its own, and without the optional values.
        let bare = bare(full.clone());
        let branded = View { brand: Brand::sample(), ..full.clone() };
        for view in [branded, bare.clone(), full.shortened(lines.min(1)), bare.shortened(0)] {
            problems.extend(self.render_strictly(template, &view, &Tracker::NONE).err().map(|error| error.to_string()));
        }
        Ok(problems)
    }
}

fn unbalanced(template: &str, problem: &str) -> String {
    format!("{template}/body.html: {problem}")
}

/// Removes every value from the view that an event or a configuration may omit.
fn bare(mut view: View) -> View {
    view.links = Links::default();
    view.recipient.name.clear();
    view.digest.cadence.clear();
    view.digest.entity_count = None;
    view.digest.entity_type = None;
    view.digest.counts = Map::new().into();
    view.digest.sums.clear();
    view.digest.items = view.digest.items.into_iter().map(bare_item).collect();
    for line in &mut view.digest.groups {
        let mut bare = line.clone().into_map().unwrap_or_default();
        for name in ["entity", "url", "excerpt"] {
            bare.insert(name.into(), Value::none());
        }
        for name in ["counts", "payload"] {
            bare.insert(name.into(), Map::new().into());
        }
        for name in ["actors", "sums"] {
            bare.insert(name.into(), Vec::<Value>::new().into());
        }
        let items: Vec<_> = items_of(line).iter().cloned().map(bare_item).collect();
        bare.insert("items".into(), items.into());
        bare.insert("who".into(), "".into());
        *line = bare.into();
    }
    view.arranged()
}

fn bare_item(item: Value) -> Value {
    let mut bare = item.into_map().unwrap_or_default();
    for name in ["url", "excerpt"] {
        bare.insert(name.into(), Value::none());
    }
    bare.insert("actor".into(), "".into());
    bare.insert("payload".into(), Map::new().into());
    bare.into()
}

/// Makes the view of a sample, in its own time zone or in `zone`.
fn view_of(json: &str, template: &str, zone: Option<&str>, phrases: Phrases<'_>) -> Result<View, String> {
    let mut sample: Sample = serde_json::from_str(json).map_err(|error| error.to_string())?;
    if let Some(zone) = zone {
        zone.clone_into(&mut sample.zone);
    }
    let key = Key::new("sample".into(), template.into(), sample.recipient.user).map_err(|error| error.to_string())?;
    let zone = time_zone(&sample.zone)?;
    let recipient = Recipient {
        tenant: key.tenant.clone(),
        user: key.user.clone(),
        address: String::new(),
        name: sample.recipient.name,
        zone: sample.zone,
        locale: String::new(),
    };
    let window = Window { key, digest_id: sample.digest_id, opened_at: sample.opened_at, due_at: sample.due_at };
    Ok(View::new(&Input {
        contents: &sample.contents,
        window: &window,
        recipient: &recipient,
        zone: &zone,
        title: None,
        cadence: &sample.cadence,
        links: &sample.links,
        brand: &settings::Brand::default(),
        phrases,
    }))
}
