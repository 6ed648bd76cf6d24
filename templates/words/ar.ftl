# الكلمات التي يقرؤها المستلمون في الرسائل والصفحات. يشرحها en.ftl.

# الرسائل
updates = { $count ->
    [zero] { $count } تحديث
    [one] تحديث واحد
    [two] تحديثان
    [few] { $count } تحديثات
    [many] { $count } تحديثًا
   *[other] { $count } تحديث
}
alerts = { $count ->
    [zero] { $count } تنبيه
    [one] تنبيه واحد
    [two] تنبيهان
    [few] { $count } تنبيهات
    [many] { $count } تنبيهًا
   *[other] { $count } تنبيه
}
# علامة الاتجاه تسبق القيم، فقد تكون كلها من اليسار إلى اليمين.
titled = { "\u200F" }{ $name }: { $title }
link_label = { $words }:

# الموضوع
quantity_in = { "\u200F" }{ $entity }: { $quantity }
in_all = { $what } (المجموع: { $places })
more_updates = { $count ->
    [zero] { $what } و{ $count } تحديث آخر
    [one] { $what } وتحديث آخر
    [two] { $what } وتحديثان آخران
    [few] { $what } و{ $count } تحديثات أخرى
    [many] { $what } و{ $count } تحديثًا آخر
   *[other] { $what } و{ $count } تحديث آخر
}
more_alerts = { $count ->
    [zero] { $what } و{ $count } تنبيه آخر
    [one] { $what } وتنبيه آخر
    [two] { $what } وتنبيهان آخران
    [few] { $what } و{ $count } تنبيهات أخرى
    [many] { $what } و{ $count } تنبيهًا آخر
   *[other] { $what } و{ $count } تنبيه آخر
}
updates_in_digest = { $count ->
    [zero] { $count } تحديث في ملخصك «{ $digest }»
    [one] تحديث واحد في ملخصك «{ $digest }»
    [two] تحديثان في ملخصك «{ $digest }»
    [few] { $count } تحديثات في ملخصك «{ $digest }»
    [many] { $count } تحديثًا في ملخصك «{ $digest }»
   *[other] { $count } تحديث في ملخصك «{ $digest }»
}

span = { "\u200F" }{ $from } – { $to }
latest = الأحدث: { $time }
and_others = { $count ->
    [zero] { $name } و{ $count } شخص آخر
    [one] { $name } وشخص آخر
    [two] { $name } وشخصان آخران
    [few] { $name } و{ $count } أشخاص آخرين
    [many] { $name } و{ $count } شخصًا آخر
   *[other] { $name } و{ $count } شخص آخر
}
and_more = و{ $count } أخرى
other_section = أخرى
show_more = { $count ->
    [zero] عرض { $count } تحديث آخر
    [one] عرض تحديث آخر
    [two] عرض تحديثين آخرين
    [few] عرض { $count } تحديثات أخرى
    [many] عرض { $count } تحديثًا آخر
   *[other] عرض { $count } تحديث آخر
}

# القالب `summary`
more_numbers = { $count ->
    [zero] { $what } و{ $count } رقم آخر
    [one] { $what } ورقم آخر
    [two] { $what } ورقمان آخران
    [few] { $what } و{ $count } أرقام أخرى
    [many] { $what } و{ $count } رقمًا آخر
   *[other] { $what } و{ $count } رقم آخر
}
rise = أكثر بنسبة { $percent }٪
fall = أقل بنسبة { $percent }٪
steady = دون تغيير
before = سابقًا: { $value }

# القالب `review`
waiting_for_you = { $more ->
    [0] في انتظارك: { $title }
   *[other] في انتظارك: { $title } و{ $more } أخرى
}
waiting = { $unit ->
    [days] { $count ->
        [zero] في الانتظار منذ { $count } يوم
        [one] في الانتظار منذ يوم واحد
        [two] في الانتظار منذ يومين
        [few] في الانتظار منذ { $count } أيام
        [many] في الانتظار منذ { $count } يومًا
       *[other] في الانتظار منذ { $count } يوم
    }
    [hours] { $count ->
        [zero] في الانتظار منذ { $count } ساعة
        [one] في الانتظار منذ ساعة واحدة
        [two] في الانتظار منذ ساعتين
        [few] في الانتظار منذ { $count } ساعات
        [many] في الانتظار منذ { $count } ساعة
       *[other] في الانتظار منذ { $count } ساعة
    }
   *[minutes] { $count ->
        [zero] في الانتظار منذ { $count } دقيقة
        [one] في الانتظار منذ دقيقة واحدة
        [two] في الانتظار منذ دقيقتين
        [few] في الانتظار منذ { $count } دقائق
        [many] في الانتظار منذ { $count } دقيقة
       *[other] في الانتظار منذ { $count } دقيقة
    }
}

# التذييل
why = تصلك هذه الرسالة لأن الملخص «{ $digest }» مفعَّل لك.
why_named = { $name }، تصلك هذه الرسالة لأن الملخص «{ $digest }» مفعَّل لك.
comes = الوتيرة: { $cadence }.
times_zone = المنطقة الزمنية: { $zone }.
change_how_often = تغيير الوتيرة
adapted = لم تفتح هذه الرسائل منذ مدة، لذلك تصلك الآن مرة واحدة في الأسبوع.
as_before = استلامها بالوتيرة السابقة
as_before_text = وتيرة رسائل «{ $digest }»: { $cadence }.
view_in_browser = العرض في المتصفح

# الفئات والأنواع
noun = { $name }: { $count }
noun_change = { $count ->
    [zero] { $count } تغيير
    [one] تغيير واحد
    [two] تغييران
    [few] { $count } تغييرات
    [many] { $count } تغييرًا
   *[other] { $count } تغيير
}
noun_comment = { $count ->
    [zero] { $count } تعليق
    [one] تعليق واحد
    [two] تعليقان
    [few] { $count } تعليقات
    [many] { $count } تعليقًا
   *[other] { $count } تعليق
}
noun_fix = { $count ->
    [zero] { $count } إصلاح
    [one] إصلاح واحد
    [two] إصلاحان
    [few] { $count } إصلاحات
    [many] { $count } إصلاحًا
   *[other] { $count } إصلاح
}
noun_dependency = { $count ->
    [zero] { $count } اعتمادية
    [one] اعتمادية واحدة
    [two] اعتماديتان
    [few] { $count } اعتماديات
    [many] { $count } اعتمادية
   *[other] { $count } اعتمادية
}
noun_reminder = { $count ->
    [zero] { $count } تذكير
    [one] تذكير واحد
    [two] تذكيران
    [few] { $count } تذكيرات
    [many] { $count } تذكيرًا
   *[other] { $count } تذكير
}
noun_share = { $count ->
    [zero] { $count } مشاركة
    [one] مشاركة واحدة
    [two] مشاركتان
    [few] { $count } مشاركات
    [many] { $count } مشاركة
   *[other] { $count } مشاركة
}
noun_outage = { $count ->
    [zero] { $count } انقطاع
    [one] انقطاع واحد
    [two] انقطاعان
    [few] { $count } انقطاعات
    [many] { $count } انقطاعًا
   *[other] { $count } انقطاع
}
noun_recovery = { $count ->
    [zero] { $count } استعادة
    [one] استعادة واحدة
    [two] استعادتان
    [few] { $count } استعادات
    [many] { $count } استعادة
   *[other] { $count } استعادة
}
noun_build_failure = { $count ->
    [zero] { $count } فشل في البناء
    [one] فشل واحد في البناء
    [two] حالتا فشل في البناء
    [few] { $count } حالات فشل في البناء
    [many] { $count } حالة فشل في البناء
   *[other] { $count } حالة فشل في البناء
}
noun_disk_warning = { $count ->
    [zero] { $count } تحذير بشأن القرص
    [one] تحذير واحد بشأن القرص
    [two] تحذيران بشأن القرص
    [few] { $count } تحذيرات بشأن القرص
    [many] { $count } تحذيرًا بشأن القرص
   *[other] { $count } تحذير بشأن القرص
}
noun_area = { $count ->
    [zero] { $count } مجال
    [one] مجال واحد
    [two] مجالان
    [few] { $count } مجالات
    [many] { $count } مجالًا
   *[other] { $count } مجال
}
noun_document = { $count ->
    [zero] { $count } مستند
    [one] مستند واحد
    [two] مستندان
    [few] { $count } مستندات
    [many] { $count } مستندًا
   *[other] { $count } مستند
}
noun_review = { $count ->
    [zero] { $count } مراجعة
    [one] مراجعة واحدة
    [two] مراجعتان
    [few] { $count } مراجعات
    [many] { $count } مراجعة
   *[other] { $count } مراجعة
}
noun_approval = { $count ->
    [zero] { $count } موافقة
    [one] موافقة واحدة
    [two] موافقتان
    [few] { $count } موافقات
    [many] { $count } موافقة
   *[other] { $count } موافقة
}
noun_page = { $count ->
    [zero] { $count } صفحة
    [one] صفحة واحدة
    [two] صفحتان
    [few] { $count } صفحات
    [many] { $count } صفحة
   *[other] { $count } صفحة
}
noun_service = { $count ->
    [zero] { $count } خدمة
    [one] خدمة واحدة
    [two] خدمتان
    [few] { $count } خدمات
    [many] { $count } خدمة
   *[other] { $count } خدمة
}
noun_host = { $count ->
    [zero] { $count } مضيف
    [one] مضيف واحد
    [two] مضيفان
    [few] { $count } مضيفين
    [many] { $count } مضيفًا
   *[other] { $count } مضيف
}
noun_pipeline = { $count ->
    [zero] { $count } مسار
    [one] مسار واحد
    [two] مساران
    [few] { $count } مسارات
    [many] { $count } مسارًا
   *[other] { $count } مسار
}

# الأعداد
count = { $name }: { $count }
count_critical = حرج: { $count }
count_failed = فاشل: { $count }
count_failures = { $count ->
    [zero] { $count } إخفاق
    [one] إخفاق واحد
    [two] إخفاقان
    [few] { $count } إخفاقات
    [many] { $count } إخفاقًا
   *[other] { $count } إخفاق
}
count_errors = { $count ->
    [zero] { $count } خطأ
    [one] خطأ واحد
    [two] خطآن
    [few] { $count } أخطاء
    [many] { $count } خطأً
   *[other] { $count } خطأ
}
count_warnings = { $count ->
    [zero] { $count } تحذير
    [one] تحذير واحد
    [two] تحذيران
    [few] { $count } تحذيرات
    [many] { $count } تحذيرًا
   *[other] { $count } تحذير
}
count_files = { $count ->
    [zero] { $count } ملف
    [one] ملف واحد
    [two] ملفان
    [few] { $count } ملفات
    [many] { $count } ملفًا
   *[other] { $count } ملف
}
count_down = متوقف: { $count }
count_fatal = قاتل: { $count }
count_degraded = متدهور: { $count }
count_unstable = غير مستقر: { $count }
count_flaky = متقطع: { $count }
count_skipped = متخطى: { $count }
count_passed = ناجح: { $count }
count_resolved = محلول: { $count }
count_recovered = مستعاد: { $count }
count_fixed = مصلَح: { $count }

# صفحة التفضيلات
title = رسائلك الإلكترونية
title_of = رسائلك الإلكترونية من { $sender }
about = { $address ->
    [unknown] هذه الخيارات خاصة بك.
   *[other] هذه الخيارات خاصة بالعنوان { $address }.
}
intro = اختر الملخصات التي تصلك وموعد وصولها. يحتوي الملخص على كل جديد منذ الملخص السابق، ولا يصل إلا إذا كان هناك جديد.
on = إرسال هذا الملخص إليّ
how_often = الوتيرة
day = اليوم
day_of_month = اليوم من الشهر
last_day = اليوم الأخير
time = الوقت
categories = المحتوى
pause = إيقاف مؤقت حتى
pause_hint = لا يُرسل شيء قبل هذا اليوم. ما يحدث في هذه الأثناء يرد في أول ملخص بعده.
zone = المنطقة الزمنية
zone_hint = جميع الأوقات في هذه الصفحة بتوقيت هذه المنطقة.
save = حفظ
none = بدون أي ملخصات
none_hint = يوقف جميع الملخصات في هذه الصفحة.
undo = تراجع
nothing_to_choose = لا يوجد ما يمكن اختياره: لم تعد تُرسل أي ملخصات.

# بعد التغيير
saved = تم حفظ خياراتك.
unchanged = لم يتغير شيء.
undone = تم التراجع عن التغيير.
all_off = لن تصلك ملخصات بعد الآن.
conflict = تغيرت خياراتك في هذه الأثناء، ربما في نافذة أخرى. لم يُحفظ شيء. يظهر أدناه ما هو سارٍ الآن.
wrong = لم يُحفظ شيء: قيمة «{ $field }» غير ممكنة. يرجى الاختيار مرة أخرى.

# ما سيأتي
next = الملخص التالي: { $when }.
next_then = الملخص التالي: { $when }. وبعد ذلك: { $cadence }.
next_if_new = الملخص التالي: { $when }، إذا كان هناك جديد.
next_at_once = الملخص التالي: حالما يكون هناك جديد.
next_off = هذا الملخص لا يصلك.
next_paused = متوقف مؤقتًا. يُستأنف: { $when }.
next_paused_due = متوقف مؤقتًا. يُستأنف: { $until }. الملخص التالي: { $when }.
next_stopped = أوقف المرسل هذا الملخص في الوقت الحالي. سيصل الجديد لاحقًا.
next_suppressed = لا يُرسل شيء إلى عنوانك لأن رسائل ارتدت أو أُبلغ عنها كرسائل غير مرغوب فيها.
next_never = هذا الملخص لا يُرسل أبدًا.

# الوتيرة في قائمة
often_default = كالمعتاد: { $cadence }
often_kept = كما هو الآن: { $cadence }
often_instant = فورًا، رسالة لكل حدث
often_hourly = كل ساعة
often_daily = كل يوم
often_weekdays = من الاثنين إلى الجمعة
often_weekly = كل أسبوع
often_monthly = كل شهر

# الوتيرة بعد نقطتين
cadence_instant = فورًا، رسالة لكل حدث
cadence_after = بعد { $wait } من وقوع حدث
cadence_sliding = بعد { $wait } من الهدوء، وبعد { $most } على الأكثر
cadence_every_hour = كل ساعة
cadence_hourly = كل ساعة، عند الدقيقة { $minute }
cadence_daily = كل يوم الساعة { $time }
cadence_weekdays = من الاثنين إلى الجمعة الساعة { $time }
cadence_days = { $days } الساعة { $time }
days_range = من { $first } إلى { $last }
cadence_weekly = { $day ->
    [mon] كل يوم اثنين
    [tue] كل يوم ثلاثاء
    [wed] كل يوم أربعاء
    [thu] كل يوم خميس
    [fri] كل يوم جمعة
    [sat] كل يوم سبت
   *[sun] كل يوم أحد
} الساعة { $time }
cadence_monthly = { $day ->
    [31] في اليوم الأخير من كل شهر
   *[other] في اليوم { $day } من كل شهر
} الساعة { $time }
cadence_cron = وفق جدول خاص
cadence_never = أبدًا

# الأوقات
when = { $day }، { $time } ({ $zone })
today = اليوم، { $date }
tomorrow = غدًا، { $date }

# المدد، بعد حرف جر
seconds = { $count ->
    [zero] { $count } ثانية
    [one] ثانية واحدة
    [two] ثانيتين
    [few] { $count } ثوانٍ
    [many] { $count } ثانية
   *[other] { $count } ثانية
}
minutes = { $count ->
    [zero] { $count } دقيقة
    [one] دقيقة واحدة
    [two] دقيقتين
    [few] { $count } دقائق
    [many] { $count } دقيقة
   *[other] { $count } دقيقة
}
hours = { $count ->
    [zero] { $count } ساعة
    [one] ساعة واحدة
    [two] ساعتين
    [few] { $count } ساعات
    [many] { $count } ساعة
   *[other] { $count } ساعة
}
days = { $count ->
    [zero] { $count } يوم
    [one] يوم واحد
    [two] يومين
    [few] { $count } أيام
    [many] { $count } يومًا
   *[other] { $count } يوم
}

# صفحات أخرى
unavailable = هذا غير ممكن في الوقت الحالي
unavailable_text = يرجى المحاولة مرة أخرى بعد دقيقة.
gone = لم تعد هذه الرسالة محفوظة
gone_text = يمكن قراءة الرسائل في المتصفح لمدة محدودة فقط. الرسالة الإلكترونية نفسها لا تتأثر بذلك.
not_found = هذا الرابط لا يعمل
not_found_text = ربما نُسخ جزء منه فقط. يرجى فتحه من الرسالة الإلكترونية أو نسخ الرابط كاملًا.

# إلغاء الاشتراك عبر رابط في رسالة
unsubscribe = إلغاء الاشتراك
unsubscribe_question = هل تريد إلغاء الاشتراك؟
unsubscribe_digest = { $address ->
    [unknown] لن تصلك رسائل «{ $digest }» بعد الآن.
   *[other] لن تصل رسائل «{ $digest }» بعد الآن إلى { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] لن تصلك نشرات إخبارية ولا رسائل جماعية أخرى بعد الآن.
   *[other] لن تصل نشرات إخبارية ولا رسائل جماعية أخرى بعد الآن إلى { $address }.
}
unsubscribed = تم إلغاء اشتراكك
unsubscribed_digest = { $address ->
    [unknown] لن تُرسل رسائل «{ $digest }» بعد الآن.
   *[other] لن تُرسل رسائل «{ $digest }» بعد الآن إلى { $address }.
}
unsubscribed_bulk = { $address ->
    [unknown] لن تُرسل نشرات إخبارية ولا رسائل جماعية أخرى بعد الآن.
   *[other] لن تُرسل نشرات إخبارية ولا رسائل جماعية أخرى بعد الآن إلى { $address }.
}
former_name = لم تعد تُرسل رسائل بهذا الاسم. إذا ظلت تصلك رسائل، فألغِ الاشتراك عبر الرابط في أحدث رسالة.
