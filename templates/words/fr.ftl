# Mots pour les destinataires, dans les messages et sur les pages. en.ftl les explique.

# Messages
updates = { $count ->
    [one] { $count } nouveauté
   *[other] { $count } nouveautés
}
alerts = { $count ->
    [one] { $count } alerte
   *[other] { $count } alertes
}
titled = { $name } : { $title }
link_label = { $words } :

# Objet
quantity_in = { $quantity } dans { $entity }
in_all = { $what } ({ $places } au total)
more_updates = { $count ->
    [one] { $what } et { $count } autre nouveauté
   *[other] { $what } et { $count } autres nouveautés
}
more_alerts = { $count ->
    [one] { $what } et { $count } autre alerte
   *[other] { $what } et { $count } autres alertes
}
updates_in_digest = { $count ->
    [one] { $count } nouveauté dans votre récapitulatif « { $digest } »
   *[other] { $count } nouveautés dans votre récapitulatif « { $digest } »
}

span = { $from } – { $to }
latest = dernière fois : { $time }
and_others = { $count ->
    [one] { $name } et { $count } autre personne
   *[other] { $name } et { $count } autres personnes
}
and_more = et { $count } de plus
other_section = Autres
show_more = { $count ->
    [one] Afficher { $count } autre nouveauté
   *[other] Afficher { $count } autres nouveautés
}

# Le modèle `summary`
more_numbers = { $count ->
    [one] { $what } et { $count } autre chiffre
   *[other] { $what } et { $count } autres chiffres
}
rise = en hausse de { $percent } %
fall = en baisse de { $percent } %
steady = sans changement
before = avant : { $value }

# Le modèle `review`
waiting_for_you = { $more ->
    [0] En attente de votre part : { $title }
   *[other] En attente de votre part : { $title } et { $more } de plus
}
waiting = { $unit ->
    [days] { $count ->
        [one] en attente depuis { $count } jour
       *[other] en attente depuis { $count } jours
    }
    [hours] { $count ->
        [one] en attente depuis { $count } heure
       *[other] en attente depuis { $count } heures
    }
   *[minutes] { $count ->
        [one] en attente depuis { $count } minute
       *[other] en attente depuis { $count } minutes
    }
}

# Pied de page
why = Vous recevez cet e-mail parce que le récapitulatif « { $digest } » est activé pour vous.
why_named = { $name }, vous recevez cet e-mail parce que le récapitulatif « { $digest } » est activé pour vous.
comes = Fréquence : { $cadence }.
times_zone = Fuseau horaire : { $zone }.
change_how_often = Modifier la fréquence
adapted = Vous n’avez pas ouvert ces e-mails depuis un certain temps. Ils arrivent donc désormais une fois par semaine.
as_before = Les recevoir aussi souvent qu’avant
as_before_text = Fréquence des e-mails « { $digest } » : { $cadence }.
view_in_browser = Afficher dans le navigateur

# Catégories et types
noun = { $count } × { $name }
noun_change = { $count ->
    [one] { $count } modification
   *[other] { $count } modifications
}
noun_comment = { $count ->
    [one] { $count } commentaire
   *[other] { $count } commentaires
}
noun_fix = { $count ->
    [one] { $count } correction
   *[other] { $count } corrections
}
noun_dependency = { $count ->
    [one] { $count } dépendance
   *[other] { $count } dépendances
}
noun_reminder = { $count ->
    [one] { $count } rappel
   *[other] { $count } rappels
}
noun_share = { $count ->
    [one] { $count } partage
   *[other] { $count } partages
}
noun_outage = { $count ->
    [one] { $count } panne
   *[other] { $count } pannes
}
noun_recovery = { $count ->
    [one] { $count } rétablissement
   *[other] { $count } rétablissements
}
noun_build_failure = { $count ->
    [one] { $count } échec de build
   *[other] { $count } échecs de build
}
noun_disk_warning = { $count ->
    [one] { $count } avertissement d’espace disque
   *[other] { $count } avertissements d’espace disque
}
noun_area = { $count ->
    [one] { $count } domaine
   *[other] { $count } domaines
}
noun_document = { $count ->
    [one] { $count } document
   *[other] { $count } documents
}
noun_review = { $count ->
    [one] { $count } relecture
   *[other] { $count } relectures
}
noun_approval = { $count ->
    [one] { $count } approbation
   *[other] { $count } approbations
}
noun_page = { $count ->
    [one] { $count } page
   *[other] { $count } pages
}
noun_service = { $count ->
    [one] { $count } service
   *[other] { $count } services
}
noun_host = { $count ->
    [one] { $count } hôte
   *[other] { $count } hôtes
}
noun_pipeline = { $count ->
    [one] { $count } pipeline
   *[other] { $count } pipelines
}

# Nombres
count = { $count } { $name }
count_critical = { $count ->
    [one] { $count } critique
   *[other] { $count } critiques
}
count_failed = { $count } en échec
count_failures = { $count ->
    [one] { $count } échec
   *[other] { $count } échecs
}
count_errors = { $count ->
    [one] { $count } erreur
   *[other] { $count } erreurs
}
count_warnings = { $count ->
    [one] { $count } avertissement
   *[other] { $count } avertissements
}
count_files = { $count ->
    [one] { $count } fichier
   *[other] { $count } fichiers
}
count_down = { $count } hors service
count_fatal = { $count ->
    [one] { $count } fatal
   *[other] { $count } fatals
}
count_degraded = { $count ->
    [one] { $count } dégradé
   *[other] { $count } dégradés
}
count_unstable = { $count ->
    [one] { $count } instable
   *[other] { $count } instables
}
count_flaky = { $count ->
    [one] { $count } intermittent
   *[other] { $count } intermittents
}
count_skipped = { $count ->
    [one] { $count } ignoré
   *[other] { $count } ignorés
}
count_passed = { $count ->
    [one] { $count } réussi
   *[other] { $count } réussis
}
count_resolved = { $count ->
    [one] { $count } résolu
   *[other] { $count } résolus
}
count_recovered = { $count ->
    [one] { $count } rétabli
   *[other] { $count } rétablis
}
count_fixed = { $count ->
    [one] { $count } corrigé
   *[other] { $count } corrigés
}

# La page des préférences
title = Vos e-mails
title_of = Vos e-mails de { $sender }
about = { $address ->
    [unknown] Ces choix sont les vôtres.
   *[other] Ces choix concernent { $address }.
}
intro = Choisissez les récapitulatifs que vous recevez, et quand. Un récapitulatif contient tout ce qui est nouveau depuis le précédent, et n’arrive que s’il y a du nouveau.
on = M’envoyer ce récapitulatif
how_often = Fréquence
day = Jour
day_of_month = Jour du mois
last_day = Dernier jour
time = Heure
categories = Contenu
pause = Pause jusqu’au
pause_hint = Rien n’est envoyé avant ce jour. Ce qui se passe entre-temps figure dans le premier récapitulatif qui suit.
zone = Fuseau horaire
zone_hint = Toutes les heures de cette page sont dans ce fuseau.
save = Enregistrer
none = Aucun récapitulatif
none_hint = Désactive tous les récapitulatifs de cette page.
undo = Annuler
nothing_to_choose = Il n’y a rien à choisir : aucun récapitulatif n’est plus envoyé.

# Après une modification
saved = Vos choix sont enregistrés.
unchanged = Rien n’a été modifié.
undone = La modification est annulée.
all_off = Vous ne recevez plus de récapitulatifs.
conflict = Vos choix ont été modifiés entre-temps, peut-être dans une autre fenêtre. Rien n’a été enregistré. Voici ce qui est en vigueur.
wrong = Rien n’a été enregistré : la valeur du champ « { $field } » n’est pas possible. Veuillez choisir à nouveau.

# La suite
next = Prochain récapitulatif : { $when }.
next_then = Prochain récapitulatif : { $when }. Ensuite : { $cadence }.
next_if_new = Prochain récapitulatif : { $when }, s’il y a du nouveau.
next_at_once = Prochain récapitulatif : dès qu’il y a du nouveau.
next_off = Vous ne recevez pas ce récapitulatif.
next_paused = En pause. Reprise : { $when }.
next_paused_due = En pause. Reprise : { $until }. Prochain récapitulatif : { $when }.
next_stopped = L’expéditeur a suspendu ce récapitulatif pour le moment. Les nouveautés arriveront plus tard.
next_suppressed = Rien n’est envoyé à votre adresse, car des messages sont revenus ou ont été signalés comme indésirables.
next_never = Ce récapitulatif n’est jamais envoyé.

# Fréquence, dans une liste
often_default = Par défaut : { $cadence }
often_kept = Comme actuellement : { $cadence }
often_instant = Immédiatement, un e-mail par événement
often_hourly = Toutes les heures
often_daily = Tous les jours
often_weekdays = Du lundi au vendredi
often_weekly = Toutes les semaines
often_monthly = Tous les mois

# Fréquence, après un deux-points
cadence_instant = immédiatement, un e-mail par événement
cadence_after = { $wait } après un événement
cadence_sliding = après { $wait } de calme, et au plus tard après { $most }
cadence_every_hour = toutes les heures
cadence_hourly = toutes les heures, à la minute { $minute }
cadence_daily = tous les jours à { $time }
cadence_weekdays = du lundi au vendredi à { $time }
cadence_days = { $days } à { $time }
days_range = du { $first } au { $last }
cadence_weekly = { $day ->
    [mon] tous les lundis
    [tue] tous les mardis
    [wed] tous les mercredis
    [thu] tous les jeudis
    [fri] tous les vendredis
    [sat] tous les samedis
   *[sun] tous les dimanches
} à { $time }
cadence_monthly = { $day ->
    [1] le 1er de chaque mois
    [31] le dernier jour de chaque mois
   *[other] le { $day } de chaque mois
} à { $time }
cadence_cron = selon un calendrier particulier
cadence_never = jamais

# Heures
when = { $day }, { $time } ({ $zone })
today = aujourd’hui, { $date }
tomorrow = demain, { $date }

# Durées
seconds = { $count ->
    [one] { $count } seconde
   *[other] { $count } secondes
}
minutes = { $count ->
    [one] { $count } minute
   *[other] { $count } minutes
}
hours = { $count ->
    [one] { $count } heure
   *[other] { $count } heures
}
days = { $count ->
    [one] { $count } jour
   *[other] { $count } jours
}

# Autres pages
unavailable = Impossible pour le moment
unavailable_text = Veuillez réessayer dans une minute.
gone = Ce message n’est plus conservé
gone_text = Les messages ne sont lisibles dans le navigateur que pendant un certain temps. L’e-mail lui-même n’est pas concerné.
not_found = Ce lien ne fonctionne pas
not_found_text = Peut-être n’a-t-il été copié qu’en partie. Veuillez l’ouvrir depuis l’e-mail ou copier le lien en entier.

# Désabonnement par le lien d’un e-mail
unsubscribe = Se désabonner
unsubscribe_question = Se désabonner ?
unsubscribe_digest = { $address ->
    [unknown] Vous ne recevrez plus d’e-mails « { $digest } ».
   *[other] Vous ne recevrez plus d’e-mails « { $digest } » à l’adresse { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] Vous ne recevrez plus de newsletters ni d’autres envois en nombre.
   *[other] Vous ne recevrez plus de newsletters ni d’autres envois en nombre à l’adresse { $address }.
}
unsubscribed = Désabonnement effectué
unsubscribed_digest = { $address ->
    [unknown] Plus aucun e-mail « { $digest } » ne sera envoyé.
   *[other] Plus aucun e-mail « { $digest } » ne sera envoyé à l’adresse { $address }.
}
unsubscribed_bulk = { $address ->
    [unknown] Plus aucune newsletter ni aucun autre envoi en nombre ne sera envoyé.
   *[other] Plus aucune newsletter ni aucun autre envoi en nombre ne sera envoyé à l’adresse { $address }.
}
former_name = Aucun e-mail n’est plus envoyé sous ce nom. Si vous en recevez encore, désabonnez-vous avec le lien du plus récent.
