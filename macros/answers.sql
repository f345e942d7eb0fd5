{#- How an answer in words is compared with the texts that an item accepts, by the item's answer format. Each of these
    takes a text without spaces, tabs and line ends around it. What they change is layout alone: whoever forgives
    more credits what nobody said. -#}


{#- Up to the first line end. The text begins with no blank line, so this is its first line that says anything. -#}
{% macro first_line(text) -%}
    trim(regexp_extract({{ text }}, '^[^\r\n]*'), ' ' || chr(9))
{%- endmacro %}


{#- Lines up to the first blank one, without the spaces around them. -#}
{% macro lines_until_blank(text) -%}
    regexp_replace(
        regexp_replace(
            replace(replace({{ text }}, chr(13) || chr(10), chr(10)), chr(13), chr(10)),
            '\n[ \t]*\n(?s:.*)', ''
        ),
        '(?m)^[ \t]+|[ \t]+$', '', 'g'
    )
{%- endmacro %}


{#- Without one full stop at the end. -#}
{% macro without_stop(text) -%}
    regexp_replace({{ text }}, '[.]\z', '')
{%- endmacro %}


{#- Without one pair of quotes or backticks around it. -#}
{% macro without_quotes(text) -%}
    regexp_replace(
        {{ text }}, '(?s)\A(?:"(.*)"|''(.*)''|`(.*)`|“(.*)”|‘(.*)’)\z', '\1\2\3\4\5'
    )
{%- endmacro %}


{#- What a line may stand for as a word: itself, without one full stop, without one pair of quotes, and without both,
    the stop inside or behind. An accepted text may itself end with a stop. -#}
{% macro words_read(text) -%}
    list_distinct([
        {{ text }},
        {{ without_stop(text) }},
        {{ without_quotes(text) }},
        {{ without_quotes(without_stop(text)) }},
        {{ without_stop(without_quotes(text)) }}
    ])
{%- endmacro %}


{#- Calls such as type(e3, "red shoes"), one a line: without a pair of backticks around the line, nor spaces beside
    round brackets and commas but for those between double quotes. Quotes come first and are put back as they are. -#}
{% macro as_actions(text) -%}
    regexp_replace(
        regexp_replace({{ text }}, '(?m)^`(.*)`$', '\1', 'g'),
        '("[^"\n]*")|[ \t]*([(),])[ \t]*', '\1\2', 'g'
    )
{%- endmacro %}


{#- Actions line by line, without the number of the line: 1. or 1) -#}
{% macro as_steps(text) -%}
    {{ as_actions("regexp_replace(" ~ lines_until_blank(text) ~ ", '(?m)^[0-9]+[.)][ \\t]+', '', 'g')") }}
{%- endmacro %}


{#- Rows of cells, one space between two. -#}
{% macro as_grid(text) -%}
    regexp_replace({{ lines_until_blank(text) }}, '[ \t]+', ' ', 'g')
{%- endmacro %}


{#- On one line, one space where there was white space of any kind. -#}
{% macro as_running_text(text) -%}
    trim(regexp_replace({{ text }}, '[\s\x0b\x{85}\p{Z}]+', ' ', 'g'), ' ')
{%- endmacro %}


{#- A letter and its accent are one text, in however many characters they are written. A character 0 would end the
    text here and hide what is behind it. -#}
{% macro one_spelling(text) -%}
    nfc_normalize(replace({{ text }}, chr(0), chr(65533)))
{%- endmacro %}


{#- The same where capitals do not count; a capital may be written in several ways that have one small letter. -#}
{% macro one_spelling_in_small(text) -%}
    {{ one_spelling("lower(" ~ one_spelling(text) ~ ")") }}
{%- endmacro %}


{#- Whether a text can be one of those whose longest has so many characters. The spellings of one character have 4 at
    most, twice where capitals do not count. Whatever is longer is not spelled at all: that takes the square of the
    accents on one letter. -#}
{% macro is_short_enough(text, n_characters) -%}
    length({{ text }}) <= 16 * {{ n_characters }}
{%- endmacro %}
