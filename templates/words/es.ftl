# Palabras para los destinatarios, en mensajes y páginas. en.ftl las explica.

# Mensajes
updates = { $count ->
    [one] { $count } novedad
   *[other] { $count } novedades
}
alerts = { $count ->
    [one] { $count } alerta
   *[other] { $count } alertas
}
titled = { $name }: { $title }
link_label = { $words }:

# Asunto
quantity_in = { $quantity } en { $entity }
in_all = { $what } ({ $places } en total)
more_updates = { $count ->
    [one] { $what } y { $count } novedad más
   *[other] { $what } y { $count } novedades más
}
more_alerts = { $count ->
    [one] { $what } y { $count } alerta más
   *[other] { $what } y { $count } alertas más
}
updates_in_digest = { $count ->
    [one] { $count } novedad en su resumen «{ $digest }»
   *[other] { $count } novedades en su resumen «{ $digest }»
}

span = { $from } – { $to }
latest = última vez: { $time }
and_others = { $count ->
    [one] { $name } y { $count } persona más
   *[other] { $name } y { $count } personas más
}
and_more = y { $count } más
other_section = Otros
show_more = { $count ->
    [one] Ver { $count } novedad más
   *[other] Ver { $count } novedades más
}

# La plantilla `summary`
more_numbers = { $count ->
    [one] { $what } y { $count } cifra más
   *[other] { $what } y { $count } cifras más
}
rise = { $percent } % más
fall = { $percent } % menos
steady = sin cambios
before = antes: { $value }

# La plantilla `review`
waiting_for_you = { $more ->
    [0] Pendiente de usted: { $title }
   *[other] Pendiente de usted: { $title } y { $more } más
}
waiting = { $unit ->
    [days] { $count ->
        [one] en espera desde hace { $count } día
       *[other] en espera desde hace { $count } días
    }
    [hours] { $count ->
        [one] en espera desde hace { $count } hora
       *[other] en espera desde hace { $count } horas
    }
   *[minutes] { $count ->
        [one] en espera desde hace { $count } minuto
       *[other] en espera desde hace { $count } minutos
    }
}

# Pie
why = Recibe este correo porque tiene activado el resumen «{ $digest }».
why_named = { $name }, recibe este correo porque tiene activado el resumen «{ $digest }».
comes = Frecuencia: { $cadence }.
times_zone = Zona horaria: { $zone }.
change_how_often = Cambiar la frecuencia
adapted = Hace tiempo que no abre estos correos, así que ahora llegan una vez por semana.
as_before = Recibirlos con la misma frecuencia que antes
as_before_text = Frecuencia de los correos «{ $digest }»: { $cadence }.
view_in_browser = Ver en el navegador

# Categorías y tipos
noun = { $count } × { $name }
noun_change = { $count ->
    [one] { $count } cambio
   *[other] { $count } cambios
}
noun_comment = { $count ->
    [one] { $count } comentario
   *[other] { $count } comentarios
}
noun_fix = { $count ->
    [one] { $count } corrección
   *[other] { $count } correcciones
}
noun_dependency = { $count ->
    [one] { $count } dependencia
   *[other] { $count } dependencias
}
noun_reminder = { $count ->
    [one] { $count } recordatorio
   *[other] { $count } recordatorios
}
noun_share = { $count ->
    [one] { $count } elemento compartido
   *[other] { $count } elementos compartidos
}
noun_outage = { $count ->
    [one] { $count } interrupción
   *[other] { $count } interrupciones
}
noun_recovery = { $count ->
    [one] { $count } recuperación
   *[other] { $count } recuperaciones
}
noun_build_failure = { $count ->
    [one] { $count } fallo de compilación
   *[other] { $count } fallos de compilación
}
noun_disk_warning = { $count ->
    [one] { $count } aviso de espacio en disco
   *[other] { $count } avisos de espacio en disco
}
noun_area = { $count ->
    [one] { $count } área
   *[other] { $count } áreas
}
noun_document = { $count ->
    [one] { $count } documento
   *[other] { $count } documentos
}
noun_review = { $count ->
    [one] { $count } revisión
   *[other] { $count } revisiones
}
noun_approval = { $count ->
    [one] { $count } aprobación
   *[other] { $count } aprobaciones
}
noun_page = { $count ->
    [one] { $count } página
   *[other] { $count } páginas
}
noun_service = { $count ->
    [one] { $count } servicio
   *[other] { $count } servicios
}
noun_host = { $count ->
    [one] { $count } servidor
   *[other] { $count } servidores
}
noun_pipeline = { $count ->
    [one] { $count } canalización
   *[other] { $count } canalizaciones
}

# Cantidades
count = { $count } { $name }
count_critical = { $count ->
    [one] { $count } crítico
   *[other] { $count } críticos
}
count_failed = { $count } con fallo
count_failures = { $count ->
    [one] { $count } fallo
   *[other] { $count } fallos
}
count_errors = { $count ->
    [one] { $count } error
   *[other] { $count } errores
}
count_warnings = { $count ->
    [one] { $count } advertencia
   *[other] { $count } advertencias
}
count_files = { $count ->
    [one] { $count } archivo
   *[other] { $count } archivos
}
count_down = { $count } fuera de servicio
count_fatal = { $count ->
    [one] { $count } fatal
   *[other] { $count } fatales
}
count_degraded = { $count ->
    [one] { $count } degradado
   *[other] { $count } degradados
}
count_unstable = { $count ->
    [one] { $count } inestable
   *[other] { $count } inestables
}
count_flaky = { $count ->
    [one] { $count } intermitente
   *[other] { $count } intermitentes
}
count_skipped = { $count ->
    [one] { $count } omitido
   *[other] { $count } omitidos
}
count_passed = { $count ->
    [one] { $count } superado
   *[other] { $count } superados
}
count_resolved = { $count ->
    [one] { $count } resuelto
   *[other] { $count } resueltos
}
count_recovered = { $count ->
    [one] { $count } recuperado
   *[other] { $count } recuperados
}
count_fixed = { $count ->
    [one] { $count } corregido
   *[other] { $count } corregidos
}

# La página de preferencias
title = Sus correos
title_of = Sus correos de { $sender }
about = { $address ->
    [unknown] Estas preferencias son las suyas.
   *[other] Estas preferencias son para { $address }.
}
intro = Elija qué resúmenes recibe y cuándo. Un resumen contiene todo lo nuevo desde el anterior y solo llega si hay novedades.
on = Enviarme este resumen
how_often = Frecuencia
day = Día
day_of_month = Día del mes
last_day = Último día
time = Hora
categories = Contenido
pause = Pausa hasta
pause_hint = No se envía nada antes de ese día. Lo que ocurra mientras tanto figura en el primer resumen posterior.
zone = Zona horaria
zone_hint = Todas las horas de esta página son de esta zona.
save = Guardar
none = Ningún resumen
none_hint = Desactiva todos los resúmenes de esta página.
undo = Deshacer
nothing_to_choose = No hay nada que elegir: ya no se envían resúmenes.

# Después de un cambio
saved = Sus preferencias se han guardado.
unchanged = No se ha cambiado nada.
undone = El cambio se ha deshecho.
all_off = Ya no recibe resúmenes.
conflict = Sus preferencias se modificaron mientras tanto, quizá en otra ventana. No se ha guardado nada. Abajo se muestra lo que está en vigor.
wrong = No se ha guardado nada: el valor de «{ $field }» no es posible. Elija de nuevo.

# Lo siguiente
next = Próximo resumen: { $when }.
next_then = Próximo resumen: { $when }. Después: { $cadence }.
next_if_new = Próximo resumen: { $when }, si hay novedades.
next_at_once = Próximo resumen: en cuanto haya novedades.
next_off = No recibe este resumen.
next_paused = En pausa. Se reanuda: { $when }.
next_paused_due = En pausa. Se reanuda: { $until }. Próximo resumen: { $when }.
next_stopped = El remitente ha detenido este resumen por ahora. Las novedades llegarán más tarde.
next_suppressed = No se envía nada a su dirección porque hubo mensajes devueltos o marcados como spam.
next_never = Este resumen no se envía nunca.

# Frecuencia, en una lista
often_default = Lo habitual: { $cadence }
often_kept = Como ahora: { $cadence }
often_instant = Al momento, un correo por cada evento
often_hourly = Cada hora
often_daily = Cada día
often_weekdays = De lunes a viernes
often_weekly = Cada semana
often_monthly = Cada mes

# Frecuencia, tras dos puntos
cadence_instant = al momento, un correo por cada evento
cadence_after = { $wait } después de un evento
cadence_sliding = tras { $wait } sin novedades, y como máximo tras { $most }
cadence_every_hour = cada hora
cadence_hourly = cada hora, en el minuto { $minute }
cadence_daily = cada día, { $time }
cadence_weekdays = de lunes a viernes, { $time }
cadence_days = { $days }, { $time }
days_range = de { $first } a { $last }
cadence_weekly = { $day ->
    [mon] cada lunes
    [tue] cada martes
    [wed] cada miércoles
    [thu] cada jueves
    [fri] cada viernes
    [sat] cada sábado
   *[sun] cada domingo
}, { $time }
cadence_monthly = { $day ->
    [31] el último día de cada mes
   *[other] el día { $day } de cada mes
}, { $time }
cadence_cron = según un calendario propio
cadence_never = nunca

# Horas
when = { $day }, { $time } ({ $zone })
today = hoy, { $date }
tomorrow = mañana, { $date }

# Duraciones
seconds = { $count ->
    [one] { $count } segundo
   *[other] { $count } segundos
}
minutes = { $count ->
    [one] { $count } minuto
   *[other] { $count } minutos
}
hours = { $count ->
    [one] { $count } hora
   *[other] { $count } horas
}
days = { $count ->
    [one] { $count } día
   *[other] { $count } días
}

# Otras páginas
unavailable = Ahora mismo no es posible
unavailable_text = Inténtelo de nuevo en un minuto.
gone = Este mensaje ya no se conserva
gone_text = Los mensajes solo se pueden leer en el navegador durante un tiempo limitado. El correo en sí no se ve afectado.
not_found = Este enlace no funciona
not_found_text = Puede que solo se haya copiado una parte. Ábralo desde el correo o copie el enlace completo.

# Darse de baja con el enlace de un correo
unsubscribe = Darse de baja
unsubscribe_question = ¿Darse de baja?
unsubscribe_digest = { $address ->
    [unknown] Ya no recibirá correos «{ $digest }».
   *[other] Ya no recibirá correos «{ $digest }» en { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] Ya no recibirá boletines ni otros envíos masivos.
   *[other] Ya no recibirá boletines ni otros envíos masivos en { $address }.
}
unsubscribed = Se ha dado de baja
unsubscribed_digest = { $address ->
    [unknown] No se enviarán más correos «{ $digest }».
   *[other] No se enviarán más correos «{ $digest }» a { $address }.
}
unsubscribed_bulk = { $address ->
    [unknown] No se enviarán más boletines ni otros envíos masivos.
   *[other] No se enviarán más boletines ni otros envíos masivos a { $address }.
}
former_name = Ya no se envían correos con este nombre. Si sigue recibiéndolos, dese de baja con el enlace del más reciente.
