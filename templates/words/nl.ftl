# Woorden voor ontvangers, in berichten en op pagina’s. en.ftl legt ze uit.

# Berichten
updates = { $count ->
    [one] { $count } update
   *[other] { $count } updates
}
alerts = { $count ->
    [one] { $count } melding
   *[other] { $count } meldingen
}
titled = { $name }: { $title }
link_label = { $words }:

# Onderwerp
quantity_in = { $quantity } in { $entity }
in_all = { $what } ({ $places } in totaal)
more_updates = { $count ->
    [one] { $what } en nog { $count } update
   *[other] { $what } en nog { $count } updates
}
more_alerts = { $count ->
    [one] { $what } en nog { $count } melding
   *[other] { $what } en nog { $count } meldingen
}
updates_in_digest = { $count ->
    [one] { $count } update in je overzicht ‘{ $digest }’
   *[other] { $count } updates in je overzicht ‘{ $digest }’
}

span = { $from } – { $to }
latest = laatst { $time }
and_others = { $count ->
    [one] { $name } en { $count } ander
   *[other] { $name } en { $count } anderen
}
and_more = en nog { $count }
other_section = Overige
show_more = { $count ->
    [one] Nog { $count } update bekijken
   *[other] Nog { $count } updates bekijken
}

# Het sjabloon `summary`
more_numbers = { $count ->
    [one] { $what } en nog { $count } cijfer
   *[other] { $what } en nog { $count } cijfers
}
rise = { $percent }% meer
fall = { $percent }% minder
steady = ongewijzigd
before = eerder: { $value }

# Het sjabloon `review`
waiting_for_you = { $more ->
    [0] Wacht op jou: { $title }
   *[other] Wacht op jou: { $title } en nog { $more }
}
waiting = { $unit ->
    [days] { $count ->
        [one] wacht al { $count } dag
       *[other] wacht al { $count } dagen
    }
    [hours] { $count ->
        [one] wacht al { $count } uur
       *[other] wacht al { $count } uur
    }
   *[minutes] { $count ->
        [one] wacht al { $count } minuut
       *[other] wacht al { $count } minuten
    }
}

# Voettekst
why = Je ontvangt deze e-mail omdat het overzicht ‘{ $digest }’ voor je aanstaat.
why_named = { $name }, je ontvangt deze e-mail omdat het overzicht ‘{ $digest }’ voor je aanstaat.
comes = Hoe vaak: { $cadence }.
times_zone = Tijdzone: { $zone }.
change_how_often = Frequentie wijzigen
adapted = Je hebt deze e-mails al een tijd niet geopend. Daarom komen ze nu één keer per week.
as_before = Ontvang ze weer zo vaak als eerst
as_before_text = Zo vaak komen de e-mails ‘{ $digest }’: { $cadence }.
view_in_browser = Bekijken in de browser

# Categorieën en soorten
noun = { $count } × { $name }
noun_change = { $count ->
    [one] { $count } wijziging
   *[other] { $count } wijzigingen
}
noun_comment = { $count ->
    [one] { $count } reactie
   *[other] { $count } reacties
}
noun_fix = { $count ->
    [one] { $count } correctie
   *[other] { $count } correcties
}
noun_dependency = { $count ->
    [one] { $count } afhankelijkheid
   *[other] { $count } afhankelijkheden
}
noun_reminder = { $count ->
    [one] { $count } herinnering
   *[other] { $count } herinneringen
}
noun_share = { $count ->
    [one] { $count } gedeeld item
   *[other] { $count } gedeelde items
}
noun_outage = { $count ->
    [one] { $count } storing
   *[other] { $count } storingen
}
noun_recovery = { $count } herstel
noun_build_failure = { $count ->
    [one] { $count } mislukte build
   *[other] { $count } mislukte builds
}
noun_disk_warning = { $count ->
    [one] { $count } waarschuwing over schijfruimte
   *[other] { $count } waarschuwingen over schijfruimte
}
noun_area = { $count ->
    [one] { $count } gebied
   *[other] { $count } gebieden
}
noun_document = { $count ->
    [one] { $count } document
   *[other] { $count } documenten
}
noun_review = { $count ->
    [one] { $count } beoordeling
   *[other] { $count } beoordelingen
}
noun_approval = { $count ->
    [one] { $count } goedkeuring
   *[other] { $count } goedkeuringen
}
noun_page = { $count ->
    [one] { $count } pagina
   *[other] { $count } pagina’s
}
noun_service = { $count ->
    [one] { $count } dienst
   *[other] { $count } diensten
}
noun_host = { $count ->
    [one] { $count } host
   *[other] { $count } hosts
}
noun_pipeline = { $count ->
    [one] { $count } pipeline
   *[other] { $count } pipelines
}

# Aantallen
count = { $count } { $name }
count_critical = { $count } kritiek
count_failed = { $count } mislukt
count_failures = { $count ->
    [one] { $count } mislukking
   *[other] { $count } mislukkingen
}
count_errors = { $count ->
    [one] { $count } fout
   *[other] { $count } fouten
}
count_warnings = { $count ->
    [one] { $count } waarschuwing
   *[other] { $count } waarschuwingen
}
count_files = { $count ->
    [one] { $count } bestand
   *[other] { $count } bestanden
}
count_down = { $count } uitgevallen
count_fatal = { $count } fataal
count_degraded = { $count } verminderd
count_unstable = { $count } instabiel
count_flaky = { $count } onbetrouwbaar
count_skipped = { $count } overgeslagen
count_passed = { $count } geslaagd
count_resolved = { $count } opgelost
count_recovered = { $count } hersteld
count_fixed = { $count } verholpen

# De pagina met voorkeuren
title = Je e-mails
title_of = Je e-mails van { $sender }
about = { $address ->
    [unknown] Deze keuzes gelden voor jou.
   *[other] Deze keuzes gelden voor { $address }.
}
intro = Kies welke overzichten je krijgt, en wanneer. Een overzicht bevat alles wat nieuw is sinds het vorige en komt alleen als er iets nieuws is.
on = Stuur mij dit overzicht
how_often = Hoe vaak
day = Dag
day_of_month = Dag van de maand
last_day = Laatste dag
time = Tijd
categories = Wat erin staat
pause = Pauze tot
pause_hint = Vóór deze dag wordt niets verstuurd. Wat er intussen gebeurt, staat in het eerste overzicht daarna.
zone = Tijdzone
zone_hint = Alle tijden op deze pagina zijn in deze tijdzone.
save = Opslaan
none = Helemaal geen overzichten
none_hint = Zet elk overzicht op deze pagina uit.
undo = Ongedaan maken
nothing_to_choose = Er valt niets te kiezen: er worden geen overzichten meer verstuurd.

# Na een wijziging
saved = Je keuzes zijn opgeslagen.
unchanged = Er is niets gewijzigd.
undone = De wijziging is ongedaan gemaakt.
all_off = Je krijgt geen overzichten meer.
conflict = Je keuzes zijn intussen gewijzigd, misschien in een ander venster. Er is niets opgeslagen. Hieronder staat wat nu geldt.
wrong = Er is niets opgeslagen: de waarde van ‘{ $field }’ is niet mogelijk. Kies opnieuw.

# Wat er volgt
next = Volgend overzicht: { $when }.
next_then = Volgend overzicht: { $when }. Daarna: { $cadence }.
next_if_new = Volgend overzicht: { $when }, als er iets nieuws is.
next_at_once = Volgend overzicht: zodra er iets nieuws is.
next_off = Je krijgt dit overzicht niet.
next_paused = Gepauzeerd. Weer vanaf: { $when }.
next_paused_due = Gepauzeerd. Weer vanaf: { $until }. Volgend overzicht: { $when }.
next_stopped = De afzender heeft dit overzicht voorlopig stopgezet. Wat nieuw is, komt later.
next_suppressed = Er wordt niets naar je adres verstuurd, omdat berichten terugkwamen of als spam zijn gemeld.
next_never = Dit overzicht wordt nooit verstuurd.

# Hoe vaak, in een lijst
often_default = Zoals gewoonlijk: { $cadence }
often_kept = Zoals nu: { $cadence }
often_instant = Meteen, één e-mail per gebeurtenis
often_hourly = Elk uur
often_daily = Elke dag
often_weekdays = Maandag tot en met vrijdag
often_weekly = Elke week
often_monthly = Elke maand

# Hoe vaak, na een dubbele punt
cadence_instant = meteen, één e-mail per gebeurtenis
cadence_after = { $wait } na een gebeurtenis
cadence_sliding = na { $wait } stilte, en uiterlijk na { $most }
cadence_every_hour = elk uur
cadence_hourly = elk uur, in minuut { $minute }
cadence_daily = elke dag om { $time }
cadence_weekdays = maandag tot en met vrijdag om { $time }
cadence_days = { $days } om { $time }
days_range = { $first } tot en met { $last }
cadence_weekly = { $day ->
    [mon] elke maandag
    [tue] elke dinsdag
    [wed] elke woensdag
    [thu] elke donderdag
    [fri] elke vrijdag
    [sat] elke zaterdag
   *[sun] elke zondag
} om { $time }
cadence_monthly = { $day ->
    [31] op de laatste dag van elke maand
   *[other] op dag { $day } van elke maand
} om { $time }
cadence_cron = volgens een eigen schema
cadence_never = nooit

# Tijden
when = { $day }, { $time } ({ $zone })
today = vandaag, { $date }
tomorrow = morgen, { $date }

# Tijdsduur
seconds = { $count ->
    [one] { $count } seconde
   *[other] { $count } seconden
}
minutes = { $count ->
    [one] { $count } minuut
   *[other] { $count } minuten
}
hours = { $count } uur
days = { $count ->
    [one] { $count } dag
   *[other] { $count } dagen
}

# Andere pagina’s
unavailable = Dit lukt op dit moment niet
unavailable_text = Probeer het over een minuut opnieuw.
gone = Dit bericht wordt niet meer bewaard
gone_text = Berichten zijn maar een beperkte tijd in de browser te lezen. De e-mail zelf blijft zoals hij is.
not_found = Deze link werkt niet
not_found_text = Misschien is er maar een deel van gekopieerd. Open de link vanuit de e-mail of kopieer de hele link.

# Afmelden via de link in een e-mail
unsubscribe = Afmelden
unsubscribe_question = Afmelden?
unsubscribe_digest = { $address ->
    [unknown] Je krijgt geen e-mails ‘{ $digest }’ meer.
   *[other] Je krijgt geen e-mails ‘{ $digest }’ meer op { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] Je krijgt geen nieuwsbrieven en andere bulkberichten meer.
   *[other] Je krijgt geen nieuwsbrieven en andere bulkberichten meer op { $address }.
}
unsubscribed = Je bent afgemeld
unsubscribed_digest = { $address ->
    [unknown] Er worden geen e-mails ‘{ $digest }’ meer verstuurd.
   *[other] Er worden geen e-mails ‘{ $digest }’ meer verstuurd naar { $address }.
}
unsubscribed_bulk = { $address ->
    [unknown] Er worden geen nieuwsbrieven en andere bulkberichten meer verstuurd.
   *[other] Er worden geen nieuwsbrieven en andere bulkberichten meer verstuurd naar { $address }.
}
former_name = Onder deze naam worden geen e-mails meer verzonden. Krijg je er nog, meld je dan af met de link in de nieuwste.
