//! Renders templates with their samples, for `./dev check` and `tidings template`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jiff::Timestamp;
use serde::Deserialize;
use tera::{Map, Value};
use tidings_model::{Key, records::DigestContents, settings, time_zone, window::Window};
use uuid::Uuid;

use super::{
    HTML_BYTES, MessageSample, RenderedEmail, RenderedPage, SUBJECT_CHARS, SampleRecipient, TemplateRenderer, clean,
    html::{self, TrackingUrls},
    inline, message_context,
    source::{PARTS, SAMPLE, TemplateError, TemplateSource, TemplateSources},
    view::{BrandView, TemplateView, ViewInput, ViewLinks, items_of},
};
use crate::words::{CatalogueFiles, ENGLISH, LanguageCatalogue, LocalizedWords, Phrases};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateProblem {
    pub place: String,
    pub problem: String,
}

impl fmt::Display for TemplateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// Location of problems in a trial's data.
const DATA: &str = "your JSON";

#[derive(Clone, Copy, Debug, Default)]
pub struct TemplateTrial<'a> {
    /// As in `sample.json`, the default.
    pub data: Option<&'a str>,
    /// Language (BCP 47). Defaults to English.
    pub locale: Option<&'a str>,
    /// IANA time zone. Defaults to the one in the data. Unused for single messages.
    pub zone: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DigestSample {
    digest_id: Uuid,
    opened_at: Timestamp,
    due_at: Timestamp,
    zone: String,
    cadence: String,
    recipient: SampleRecipient,
    links: ViewLinks,
    contents: DigestContents,
}

impl TemplateRenderer {
    /// Renders each sample in every language, and checks the words.
    #[must_use]
    pub fn check_all(&self) -> Vec<TemplateProblem> {
        let of_words = words_problems(&self.words, &self.sources);
        self.names().iter().flat_map(|template| self.check_template(template)).chain(of_words).collect()
    }

    #[must_use]
    pub fn check_template(&self, template: &str) -> Vec<TemplateProblem> {
        let problems = self.template_problems(template).unwrap_or_else(|error| vec![error.to_string()]);
        problems.into_iter().map(|problem| TemplateProblem { place: template.to_owned(), problem }).collect()
    }

    /// Lists features without support in large email clients, and styles that stay in `<style>` or are
    /// overridden there. Only for the team's own templates.
    #[must_use]
    pub fn warnings(&self) -> Vec<TemplateProblem> {
        let mut weak = inline::OverriddenRules::new();
        for html in self.names().iter().filter_map(|template| self.html_of_sample(template).ok()) {
            for (rule, names) in inline::overridden_rules(&html) {
                weak.entry(rule).or_default().extend(names);
            }
        }
        self.sources
            .style_warnings(&weak)
            .into_iter()
            .map(|(place, problem)| TemplateProblem { place, problem })
            .collect()
    }

    fn html_of_sample(&self, template: &str) -> Result<String, TemplateError> {
        let phrases = self.phrases(None);
        let context = match self.message_sample(template) {
            Some(MessageSample { message, recipient, links }) => {
                let recipient = recipient.in_tenant("", String::new());
                message_context(&message, &recipient, &links, &BrandView::default(), phrases)
            }
            None => self.page(template, &self.sample(template, phrases)?, &TrackingUrls::NONE)?.context,
        };
        self.part(template, PARTS[1], &context)
    }

    /// Renders `template` with its sample, in `locale` or English.
    ///
    /// # Errors
    /// The template or its sample does not exist, the sample cannot be read, or the template fails with it.
    pub fn preview(&self, template: &str, locale: Option<&str>) -> Result<RenderedEmail, TemplateError> {
        self.try_out(template, &TemplateTrial { locale, ..TemplateTrial::default() })
    }

    /// Renders `template` with custom data or for another reader.
    ///
    /// # Errors
    /// As for [`TemplateRenderer::preview`], or the data or the time zone cannot be read.
    pub fn try_out(&self, template: &str, trial: &TemplateTrial<'_>) -> Result<RenderedEmail, TemplateError> {
        let sample = self.source_of_sample(template)?;
        let json = trial.data.unwrap_or(&sample.text);
        let wrong = |problem: String| {
            let place = trial.data.map_or_else(|| sample.path.display().to_string(), |_| DATA.to_owned());
            TemplateError::Template { place, problem }
        };
        let phrases = self.phrases(trial.locale);
        if self.message_sample(template).is_some() {
            let sample = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
            return self.sample_message(template, &sample, "", phrases);
        }
        let view = view_of(json, template, trial.zone, phrases).map_err(wrong)?;
        self.render_strictly(template, &view, &TrackingUrls::NONE)
    }

    /// # Errors
    /// The template or its sample does not exist.
    pub fn sample_json(&self, template: &str) -> Result<&str, TemplateError> {
        self.source_of_sample(template).map(|sample| sample.text.as_str())
    }

    pub(super) fn sample(&self, template: &str, phrases: Phrases<'_>) -> Result<TemplateView, TemplateError> {
        let source = self.source_of_sample(template)?;
        view_of(&source.text, template, None, phrases)
            .map_err(|problem| TemplateError::Template { place: source.path.display().to_string(), problem })
    }

    fn source_of_sample(&self, template: &str) -> Result<&TemplateSource, TemplateError> {
        self.check_name(template)?;
        let file = format!("{template}/{SAMPLE}");
        let missing = || TemplateError::Template { place: file.clone(), problem: "there is no sample".into() };
        self.sources.get(&file).ok_or_else(missing)
    }

    fn message_sample(&self, template: &str) -> Option<MessageSample> {
        serde_json::from_str(&self.sources.get(&format!("{template}/{SAMPLE}"))?.text).ok()
    }

    /// An error means the template renders nothing at all.
    fn template_problems(&self, template: &str) -> Result<Vec<String>, TemplateError> {
        let mut problems = Vec::new();
        let everybodys = self.words.catalogues().map(|catalogue| ("", catalogue.tag.to_string()));
        let tenants = self.words.tenants();
        let tenants = tenants.flat_map(|(tenant, own)| own.values().map(move |own| (tenant, own.tag.to_string())));
        for (tenant, tag) in everybodys.chain(tenants) {
            let phrases = self.phrases_for(tenant, [tag.as_str()]);
            let found = match self.message_sample(template) {
                Some(sample) => {
                    let html = self.sample_message(template, &sample, tenant, phrases)?.html;
                    html::find_unbalanced(&html).map(|problem| unbalanced(template, &problem)).into_iter().collect()
                }
                None => self.problems_in(template, tenant, phrases)?,
            };
            problems.extend(found.into_iter().filter(|problem| !problems.contains(problem)).collect::<Vec<_>>());
        }
        Ok(problems)
    }

    fn problems_in(&self, template: &str, tenant: &str, phrases: Phrases<'_>) -> Result<Vec<String>, TemplateError> {
        let full = TemplateView { tenant: tenant.to_owned(), ..self.sample(template, phrases)? };
        let mut problems = Vec::new();
        let lines = full.digest.lines.len();
        let RenderedPage { html, context, .. } = self.page(template, &full, &TrackingUrls::NONE)?;
        if html.len() >= HTML_BYTES {
            let bytes = html.len();
            problems
                .push(format!("the sample makes {bytes} bytes of HTML in {}; the limit is {HTML_BYTES}", full.lang));
        }
        problems.extend(html::find_unbalanced(&html).map(|problem| unbalanced(template, &problem)));
        self.render_strictly(template, &full, &TrackingUrls::NONE)?;
        let chars = clean::clean_subject(&self.part(template, PARTS[0], &context)?, usize::MAX).chars().count();
        if chars > SUBJECT_CHARS {
            problems.push(format!(
                "the subject of the sample has {chars} characters in {}, and is cut at {SUBJECT_CHARS}",
                full.lang
            ));
        }
        // A template should also work for a tenant with its own brand, and without optional values.
        let bare = bare(full.clone());
        let branded = TemplateView { brand: BrandView::sample(), ..full.clone() };
        for view in [branded, bare.clone(), full.with_lines(lines.min(1)), bare.with_lines(0)] {
            problems.extend(
                self.render_strictly(template, &view, &TrackingUrls::NONE).err().map(|error| error.to_string()),
            );
        }
        Ok(problems)
    }
}

fn unbalanced(template: &str, problem: &str) -> String {
    format!("{template}/body.html: {problem}")
}

fn bare(mut view: TemplateView) -> TemplateView {
    view.links = ViewLinks::default();
    view.recipient.name.clear();
    view.digest.cadence.clear();
    view.digest.entity_count = None;
    view.digest.entity_type = None;
    view.digest.counts = Map::new().into();
    view.digest.sums.clear();
    view.digest.items = view.digest.items.into_iter().map(bare_item).collect();
    let (map, list) = (|| Map::new().into(), || Vec::<Value>::new().into());
    for line in &mut view.digest.lines {
        let items: Vec<_> = items_of(line).iter().cloned().map(bare_item).collect();
        let empty = [("entity", Value::none()), ("url", Value::none()), ("excerpt", Value::none()), ("who", "".into())];
        let lists =
            [("counts", map()), ("payload", map()), ("actors", list()), ("sums", list()), ("items", items.into())];
        *line = override_values(line.clone(), empty.into_iter().chain(lists));
    }
    view.with_sections()
}

fn bare_item(item: Value) -> Value {
    let payload = ("payload", Map::new().into());
    override_values(item, [("url", Value::none()), ("excerpt", Value::none()), ("actor", "".into()), payload])
}

fn override_values(map: Value, values: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let mut fields = map.into_map().unwrap_or_default();
    fields.extend(values.into_iter().map(|(name, value)| (name.into(), value)));
    fields.into()
}

fn view_of(json: &str, template: &str, zone: Option<&str>, phrases: Phrases<'_>) -> Result<TemplateView, String> {
    let mut sample: DigestSample = serde_json::from_str(json).map_err(|error| error.to_string())?;
    if let Some(zone) = zone {
        zone.clone_into(&mut sample.zone);
    }
    let key =
        Key::new("sample".into(), template.into(), sample.recipient.user.clone()).map_err(|error| error.to_string())?;
    let zone = time_zone(&sample.zone)?;
    let recipient = sample.recipient.in_tenant(&key.tenant, sample.zone);
    let window = Window { key, digest_id: sample.digest_id, opened_at: sample.opened_at, due_at: sample.due_at };
    Ok(TemplateView::new(&ViewInput {
        contents: &sample.contents,
        window: &window,
        recipient: &recipient,
        zone: &zone,
        title: None,
        cadence: &sample.cadence,
        links: &sample.links,
        brand: &settings::TenantBrand::default(),
        phrases,
    }))
}

/// These messages get `count`.
const COUNTED: [&str; 2] = ["noun_", "count_"];
/// These messages get no variables.
const CALLED: [&str; 3] = ["digest_", "description_", "category_"];

/// Checks all languages, tenants' overrides, and messages used in templates.
fn words_problems(words: &LocalizedWords, sources: &TemplateSources) -> Vec<TemplateProblem> {
    let said: Vec<_> =
        sources.templates().flat_map(|(file, text)| used_messages(text).map(move |id| (file, id))).collect();
    let catalogues: Vec<_> = words.catalogues().collect();
    let Some(english) = catalogues.iter().find(|catalogue| catalogue.tag == ENGLISH) else {
        return Vec::new();
    };
    let reference = english.messages(CatalogueFiles::All);
    let nowhere = said.iter().filter(|(_, id)| !reference.contains_key(id)).map(|(file, id)| TemplateProblem {
        place: (*file).to_owned(),
        problem: format!("it says `{id}`, which is no message of words/{ENGLISH}.ftl"),
    });
    let shipped = english.messages(CatalogueFiles::Shipped);
    let used: BTreeSet<_> = said.iter().map(|(_, id)| *id).chain(shipped.keys().copied()).collect();
    let general = catalogues.iter().flat_map(|catalogue| {
        let all = catalogue.messages(CatalogueFiles::All);
        let lacking = missing_messages(catalogue, &all, &reference, &catalogues);
        let found = lacking.into_iter().chain(wrong_variables(&all, &reference));
        let found: Vec<_> = found.chain(unused_messages(&catalogue.messages(CatalogueFiles::Own), &used)).collect();
        problems_at(format!("words/{}.ftl", catalogue.tag), found)
    });
    let of_tenants = words.tenants().flat_map(|(tenant, own)| own.values().map(move |catalogue| (tenant, catalogue)));
    let of_tenants = of_tenants.flat_map(|(tenant, catalogue)| {
        let own = catalogue.messages(CatalogueFiles::All);
        // Anything missing in a tenant's file falls back to the general file for its language.
        let is_new = !catalogues.iter().any(|general| general.tag == catalogue.tag);
        let lacking = is_new.then(|| missing_messages(catalogue, &own, &reference, &catalogues)).flatten();
        let found =
            lacking.into_iter().chain(wrong_variables(&own, &reference)).chain(unused_messages(&own, &used)).collect();
        problems_at(format!("words/{tenant}/{}.ftl", catalogue.tag), found)
    });
    nowhere.chain(general).chain(of_tenants).collect()
}

type MessageVariables<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn problems_at(place: String, problems: Vec<String>) -> impl Iterator<Item = TemplateProblem> {
    problems.into_iter().map(move |problem| TemplateProblem { place: place.clone(), problem })
}

/// Lists missing messages, unless the language falls back to one of `others` (e.g. `de-AT` to `de`).
fn missing_messages(
    catalogue: &LanguageCatalogue,
    all: &MessageVariables<'_>,
    reference: &MessageVariables<'_>,
    others: &[&LanguageCatalogue],
) -> Option<String> {
    let has_parent = others.iter().any(|other| {
        let (own, other) = (catalogue.tag.to_string(), other.tag.to_string());
        own.strip_prefix(&other).is_some_and(|rest| rest.starts_with('-'))
    });
    let lacking = reference.keys().filter(|id| !has_parent && !all.contains_key(*id) && !is_named(id));
    let lacking: Vec<_> = lacking.copied().collect();
    (!lacking.is_empty())
        .then(|| format!("it lacks {} messages, which are said in English: {}", lacking.len(), lacking.join(", ")))
}

fn wrong_variables<'a>(
    all: &'a MessageVariables<'_>,
    reference: &'a MessageVariables<'_>,
) -> impl Iterator<Item = String> + 'a {
    all.iter().filter_map(|(id, variables)| {
        let offered = match reference.get(id) {
            Some(offered) => offered.clone(),
            None if has_prefix(id, &COUNTED) => ["count"].into(),
            None if has_prefix(id, &CALLED) => BTreeSet::new(),
            None => variables.clone(),
        };
        let wrong: Vec<_> = variables.difference(&offered).map(|name| format!("${name}")).collect();
        let offered: Vec<_> = offered.iter().map(|name| format!("${name}")).collect();
        let offered = if offered.is_empty() { "no variable".to_owned() } else { offered.join(", ") };
        (!wrong.is_empty()).then(|| format!("`{id}` has {}, and is given {offered}", wrong.join(", ")))
    })
}

fn unused_messages<'a>(own: &'a MessageVariables<'_>, used: &'a BTreeSet<&str>) -> impl Iterator<Item = String> + 'a {
    own.keys().filter(|id| !used.contains(*id) && !is_named(id)).map(|id| format!("`{id}` is said nowhere"))
}

fn is_named(id: &str) -> bool {
    has_prefix(id, &COUNTED) || has_prefix(id, &CALLED)
}

fn has_prefix(id: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| id.starts_with(start))
}

/// Message ids in a template, e.g. `t(id="unsubscribe")`.
fn used_messages(text: &str) -> impl Iterator<Item = &str> {
    let calls = text.match_indices("t(").filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    });
    calls.filter_map(|(at, call)| {
        let value =
            text[at + call.len()..].trim_start().strip_prefix("id")?.trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|c| ['"', '\'', '`'].contains(c))?;
        value[1..].split(quote).next()
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn found(folder: &Path) -> Vec<String> {
        let faults = words_problems(
            &LocalizedWords::new(Some(folder)).unwrap(),
            &TemplateSources::from_folder(Some(folder)).unwrap(),
        );
        faults.iter().map(TemplateProblem::to_string).collect()
    }

    #[test]
    fn a_catalogue_is_checked_against_english_and_the_templates() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(found(folder.path()), [] as [&str; 0]);
        fs::create_dir(folder.path().join("words")).unwrap();
        let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        file(
            "words/de.ftl",
            "saev = Sichern\nnext = { $wann }\nnoun_review = { $count } von { $name }\nown = Eigenes\n\
             category_change = Änderungen\ndigest_news = { $count } Neues\n",
        );
        file("words/de-AT.ftl", "save = Sichern\n");
        file("words/he.ftl", "save = שמירה\n");
        file("layout.txt", "{{ t(id=\"own\") }}{{ t( id = 'nothing' ) }}<p id=\"no\">{{ print(id=\"x\") }}");
        let found = found(folder.path());
        assert_eq!(
            found[..2],
            [
                "layout.txt: it says `own`, which is no message of words/en.ftl",
                "layout.txt: it says `nothing`, which is no message of words/en.ftl",
            ]
        );
        assert_eq!(
            found[2..6],
            [
                "words/de.ftl: `digest_news` has $count, and is given no variable",
                "words/de.ftl: `next` has $wann, and is given $when",
                "words/de.ftl: `noun_review` has $name, and is given $count",
                "words/de.ftl: `saev` is said nowhere",
            ]
        );
        assert!(found[6].starts_with("words/he.ftl: it lacks ") && found[6].contains(" about, "), "{}", found[6]);
        assert_eq!(found.len(), 7, "{found:?}");
        file("words/en.ftl", "own = Own\nnothing = -\n");
        fs::create_dir(folder.path().join("words/acme")).unwrap();
        file("words/acme/de.ftl", "save = Merken\nnext = { $wann }\nsaev = Merken\nnoun_review = { $count }\n");
        file("words/acme/fi.ftl", "save = Tallenna\n");
        let found = self::found(folder.path());
        assert!(!found.iter().any(|fault| fault.starts_with("layout.txt")));
        let of_tenant: Vec<_> = found.iter().filter(|fault| fault.starts_with("words/acme/")).collect();
        assert_eq!(of_tenant[0], "words/acme/de.ftl: `next` has $wann, and is given $when");
        assert_eq!(of_tenant[1], "words/acme/de.ftl: `saev` is said nowhere");
        assert!(of_tenant[2].starts_with("words/acme/fi.ftl: it lacks "), "{}", of_tenant[2]);
        assert_eq!(of_tenant.len(), 3, "{of_tenant:?}");
    }
}
