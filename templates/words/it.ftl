# Parole per i destinatari, nei messaggi e nelle pagine. en.ftl le spiega.

# Messaggi
updates = { $count } novità
alerts = { $count ->
    [one] { $count } avviso
   *[other] { $count } avvisi
}
titled = { $name }: { $title }
link_label = { $words }:

# Oggetto
quantity_in = { $quantity } in { $entity }
in_all = { $what } ({ $places } in totale)
more_updates = { $count ->
    [one] { $what } e { $count } altra novità
   *[other] { $what } e altre { $count } novità
}
more_alerts = { $count ->
    [one] { $what } e { $count } altro avviso
   *[other] { $what } e altri { $count } avvisi
}
updates_in_digest = { $count } novità nel tuo riepilogo “{ $digest }”

span = { $from } – { $to }
latest = ultima volta: { $time }
and_others = { $count ->
    [one] { $name } e { $count } altra persona
   *[other] { $name } e altre { $count } persone
}
and_more = e { $count } in più
other_section = Altro
show_more = { $count ->
    [one] Mostra { $count } altra novità
   *[other] Mostra altre { $count } novità
}

# Il modello `summary`
more_numbers = { $count ->
    [one] { $what } e { $count } altro numero
   *[other] { $what } e altri { $count } numeri
}
rise = { $percent }% in più
fall = { $percent }% in meno
steady = nessuna variazione
before = prima: { $value }

# Il modello `review`
waiting_for_you = { $more ->
    [0] In attesa di te: { $title }
   *[other] In attesa di te: { $title } e { $more } in più
}
waiting = { $unit ->
    [days] { $count ->
        [one] in attesa da { $count } giorno
       *[other] in attesa da { $count } giorni
    }
    [hours] { $count ->
        [one] in attesa da { $count } ora
       *[other] in attesa da { $count } ore
    }
   *[minutes] { $count ->
        [one] in attesa da { $count } minuto
       *[other] in attesa da { $count } minuti
    }
}

# Piè di pagina
why = Ricevi questa e-mail perché il riepilogo “{ $digest }” è attivo per te.
why_named = { $name }, ricevi questa e-mail perché il riepilogo “{ $digest }” è attivo per te.
comes = Frequenza: { $cadence }.
times_zone = Fuso orario: { $zone }.
change_how_often = Cambia la frequenza
adapted = Da un po’ di tempo non apri queste e-mail, perciò ora arrivano una volta alla settimana.
as_before = Ricevile con la frequenza di prima
as_before_text = Frequenza delle e-mail “{ $digest }”: { $cadence }.
view_in_browser = Visualizza nel browser

# Categorie e tipi
noun = { $count } × { $name }
noun_change = { $count ->
    [one] { $count } modifica
   *[other] { $count } modifiche
}
noun_comment = { $count ->
    [one] { $count } commento
   *[other] { $count } commenti
}
noun_fix = { $count ->
    [one] { $count } correzione
   *[other] { $count } correzioni
}
noun_dependency = { $count ->
    [one] { $count } dipendenza
   *[other] { $count } dipendenze
}
noun_reminder = { $count } promemoria
noun_share = { $count ->
    [one] { $count } condivisione
   *[other] { $count } condivisioni
}
noun_outage = { $count ->
    [one] { $count } interruzione
   *[other] { $count } interruzioni
}
noun_recovery = { $count ->
    [one] { $count } ripristino
   *[other] { $count } ripristini
}
noun_build_failure = { $count ->
    [one] { $count } build non riuscita
   *[other] { $count } build non riuscite
}
noun_disk_warning = { $count ->
    [one] { $count } avviso di spazio su disco
   *[other] { $count } avvisi di spazio su disco
}
noun_area = { $count ->
    [one] { $count } area
   *[other] { $count } aree
}
noun_document = { $count ->
    [one] { $count } documento
   *[other] { $count } documenti
}
noun_review = { $count ->
    [one] { $count } revisione
   *[other] { $count } revisioni
}
noun_approval = { $count ->
    [one] { $count } approvazione
   *[other] { $count } approvazioni
}
noun_page = { $count ->
    [one] { $count } pagina
   *[other] { $count } pagine
}
noun_service = { $count ->
    [one] { $count } servizio
   *[other] { $count } servizi
}
noun_host = { $count } host
noun_pipeline = { $count } pipeline

# Quantità
count = { $count } { $name }
count_critical = { $count ->
    [one] { $count } critico
   *[other] { $count } critici
}
count_failed = { $count ->
    [one] { $count } non riuscito
   *[other] { $count } non riusciti
}
count_failures = { $count ->
    [one] { $count } fallimento
   *[other] { $count } fallimenti
}
count_errors = { $count ->
    [one] { $count } errore
   *[other] { $count } errori
}
count_warnings = { $count ->
    [one] { $count } avvertimento
   *[other] { $count } avvertimenti
}
count_files = { $count } file
count_down = { $count } fuori servizio
count_fatal = { $count ->
    [one] { $count } fatale
   *[other] { $count } fatali
}
count_degraded = { $count ->
    [one] { $count } degradato
   *[other] { $count } degradati
}
count_unstable = { $count ->
    [one] { $count } instabile
   *[other] { $count } instabili
}
count_flaky = { $count ->
    [one] { $count } intermittente
   *[other] { $count } intermittenti
}
count_skipped = { $count ->
    [one] { $count } saltato
   *[other] { $count } saltati
}
count_passed = { $count ->
    [one] { $count } superato
   *[other] { $count } superati
}
count_resolved = { $count ->
    [one] { $count } risolto
   *[other] { $count } risolti
}
count_recovered = { $count ->
    [one] { $count } ripristinato
   *[other] { $count } ripristinati
}
count_fixed = { $count ->
    [one] { $count } corretto
   *[other] { $count } corretti
}

# La pagina delle preferenze
title = Le tue e-mail
title_of = Le tue e-mail da { $sender }
about = { $address ->
    [unknown] Queste scelte sono le tue.
   *[other] Queste scelte valgono per { $address }.
}
intro = Scegli quali riepiloghi ricevere, e quando. Un riepilogo contiene tutto ciò che è nuovo dal precedente e arriva solo se ci sono novità.
on = Inviami questo riepilogo
how_often = Frequenza
day = Giorno
day_of_month = Giorno del mese
last_day = Ultimo giorno
time = Ora
categories = Contenuto
pause = Pausa fino al
pause_hint = Prima di questo giorno non viene inviato nulla. Quello che succede nel frattempo è nel primo riepilogo successivo.
zone = Fuso orario
zone_hint = Tutti gli orari di questa pagina sono in questo fuso.
save = Salva
none = Nessun riepilogo
none_hint = Disattiva tutti i riepiloghi di questa pagina.
undo = Annulla
nothing_to_choose = Non c’è nulla da scegliere: non vengono più inviati riepiloghi.

# Dopo una modifica
saved = Le tue scelte sono salvate.
unchanged = Non è stato modificato nulla.
undone = La modifica è annullata.
all_off = Non ricevi più riepiloghi.
conflict = Le tue scelte sono state modificate nel frattempo, forse in un’altra finestra. Non è stato salvato nulla. Qui sotto c’è ciò che vale ora.
wrong = Non è stato salvato nulla: il valore di “{ $field }” non è possibile. Scegli di nuovo.

# Che cosa arriva dopo
next = Prossimo riepilogo: { $when }.
next_then = Prossimo riepilogo: { $when }. In seguito: { $cadence }.
next_if_new = Prossimo riepilogo: { $when }, se ci sono novità.
next_at_once = Prossimo riepilogo: non appena ci sono novità.
next_off = Non ricevi questo riepilogo.
next_paused = In pausa. Riprende: { $when }.
next_paused_due = In pausa. Riprende: { $until }. Prossimo riepilogo: { $when }.
next_stopped = Il mittente ha sospeso per ora questo riepilogo. Le novità arriveranno più tardi.
next_suppressed = Non viene inviato nulla al tuo indirizzo, perché alcuni messaggi sono tornati indietro o sono stati segnalati come spam.
next_never = Questo riepilogo non viene mai inviato.

# Frequenza, in un elenco
often_default = Come di consueto: { $cadence }
often_kept = Come ora: { $cadence }
often_instant = Subito, un’e-mail per ogni evento
often_hourly = Ogni ora
often_daily = Ogni giorno
often_weekdays = Dal lunedì al venerdì
often_weekly = Ogni settimana
often_monthly = Ogni mese

# Frequenza, dopo i due punti
cadence_instant = subito, un’e-mail per ogni evento
cadence_after = { $wait } dopo un evento
cadence_sliding = dopo { $wait } senza novità, e al più tardi dopo { $most }
cadence_every_hour = ogni ora
cadence_hourly = ogni ora, al minuto { $minute }
cadence_daily = ogni giorno alle { $time }
cadence_weekdays = dal lunedì al venerdì alle { $time }
cadence_days = { $days } alle { $time }
days_range = da { $first } a { $last }
cadence_weekly = { $day ->
    [mon] ogni lunedì
    [tue] ogni martedì
    [wed] ogni mercoledì
    [thu] ogni giovedì
    [fri] ogni venerdì
    [sat] ogni sabato
   *[sun] ogni domenica
} alle { $time }
cadence_monthly = { $day ->
    [31] l’ultimo giorno di ogni mese
   *[other] il giorno { $day } di ogni mese
} alle { $time }
cadence_cron = secondo un calendario proprio
cadence_never = mai

# Orari
when = { $day }, { $time } ({ $zone })
today = oggi, { $date }
tomorrow = domani, { $date }

# Durate
seconds = { $count ->
    [one] { $count } secondo
   *[other] { $count } secondi
}
minutes = { $count ->
    [one] { $count } minuto
   *[other] { $count } minuti
}
hours = { $count ->
    [one] { $count } ora
   *[other] { $count } ore
}
days = { $count ->
    [one] { $count } giorno
   *[other] { $count } giorni
}

# Altre pagine
unavailable = Al momento non è possibile
unavailable_text = Riprova tra un minuto.
gone = Questo messaggio non è più conservato
gone_text = I messaggi si possono leggere nel browser solo per un tempo limitato. L’e-mail stessa resta com’è.
not_found = Questo link non funziona
not_found_text = Forse ne è stata copiata solo una parte. Aprilo dall’e-mail o copia il link per intero.

# Annullare l’iscrizione con il link di un’e-mail
unsubscribe = Annulla l’iscrizione
unsubscribe_question = Annullare l’iscrizione?
unsubscribe_digest = { $address ->
    [unknown] Non riceverai più e-mail “{ $digest }”.
   *[other] Non riceverai più e-mail “{ $digest }” all’indirizzo { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] Non riceverai più newsletter né altri invii di massa.
   *[other] Non riceverai più newsletter né altri invii di massa all’indirizzo { $address }.
}
unsubscribed = Iscrizione annullata
unsubscribed_digest = { $address ->
    [unknown] Non verranno più inviate e-mail “{ $digest }”.
   *[other] Non verranno più inviate e-mail “{ $digest }” all’indirizzo { $address }.
}
unsubscribed_bulk = { $address ->
    [unknown] Non verranno più inviate newsletter né altri invii di massa.
   *[other] Non verranno più inviate newsletter né altri invii di massa all’indirizzo { $address }.
}
former_name = Non vengono più inviate e-mail con questo nome. Se ne ricevi ancora, annulla l’iscrizione con il link nella più recente.
