//! A tenant's branding and words.

use super::*;

fn acme() -> BrandView {
    BrandView::new(&settings::TenantBrand {
        name: Some("Acme <&> Sons".into()),
        logo_url: Some("https://acme.example/logo.png".into()),
        colour: Some("#8a1c4a".parse().unwrap()),
        address_line: Some("Acme Ltd, 1 Main Street, Springfield".into()),
        locale: None,
    })
}

fn activity(brand: BrandView) -> RenderedEmail {
    let view = renderer().sample("activity", renderer().phrases([])).unwrap();
    renderer().render_strictly("activity", &TemplateView { brand, ..view }, &TrackingUrls::NONE).unwrap()
}

#[test]
fn a_tenants_looks_match_their_snapshot() {
    let mail = activity(acme());
    insta::assert_snapshot!("brand_html", mail.html);
    insta::assert_snapshot!("brand_text", mail.text);
}

#[test]
fn a_tenant_without_looks_has_everybodys_bytes() {
    let (mail, shipped) = (activity(BrandView::default()), renderer().preview("activity", None).unwrap());
    assert_eq!((mail.html, mail.text), (shipped.html, shipped.text));
}

#[test]
fn each_part_of_the_looks_stands_alone() {
    let logo = "src=\"https://acme.example/logo.png\" alt=\"Acme &lt;&amp;&gt; Sons\"";
    let (line, text) = ("Acme Ltd, 1 Main Street, Springfield", "\nAcme <&> Sons\n");
    let shown = |brand: BrandView| {
        let mail = activity(brand);
        let html = [logo, ">Acme &lt;&amp;&gt; Sons</span>", "background:#8a1c4a;color:#ffffff", line];
        let html = html.map(|part| mail.html.contains(part));
        (html, [text, line].map(|part| mail.text.contains(part)))
    };
    let all = acme();
    let only = BrandView::default();
    assert_eq!(shown(all.clone()), ([true, false, true, true], [true, true]));
    let name = BrandView { name: all.name, ..only.clone() };
    assert_eq!(shown(name), ([false, true, false, false], [true, false]));
    let colour = BrandView { colour: all.colour, ..only.clone() };
    assert_eq!(shown(colour), ([false, false, true, false], [false, false]));
    let address = BrandView { address_line: all.address_line, ..only };
    assert_eq!(shown(address), ([false, false, false, true], [false, true]));
}

#[test]
fn the_line_of_alerts_stays_red() {
    let view = renderer().sample("alerts", renderer().phrases([])).unwrap();
    let mail =
        renderer().render_strictly("alerts", &TemplateView { brand: acme(), ..view }, &TrackingUrls::NONE).unwrap();
    assert!(mail.html.contains("border-top:4px solid #d0353b"), "{}", mail.html);
}

#[test]
fn a_template_says_the_tenants_words() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("words/acme")).unwrap();
    fs::write(folder.path().join("words/acme/de.ftl"), "unsubscribe = Abbestellen\n").unwrap();
    let renderer = TemplateRenderer::new(Some(folder.path())).unwrap();
    assert_eq!(renderer.tenants().collect::<Vec<_>>(), ["acme"]);
    assert_eq!(renderer.check_all(), []);
    let said = |tenant: &str| {
        let view = renderer.sample("activity", renderer.phrases_for(tenant, ["de"])).unwrap();
        let view = TemplateView { tenant: tenant.to_owned(), ..view };
        let mail = renderer.render_strictly("activity", &view, &TrackingUrls::NONE).unwrap();
        (mail.html.contains(">Abbestellen</a>"), mail.text.contains("Abbestellen: "), mail.text.contains("Abmelden: "))
    };
    assert_eq!(said("acme"), (true, true, false));
    assert_eq!(said("bolt"), (false, false, true));
}
