{#- What a written answer says: the one place for each of two rules. Whoever reads less strictly guesses, and whoever
    guesses scores what nobody said. -#}


{#- Options that a text names, as a list; the answer is read if there is one. A text that is an option, letter by
    letter, names it. Otherwise it names those that occur in it as whole words, with the same capitals or, if none
    does, with any. A whole word has neither a letter, a digit nor an underscore directly before or after it; one
    that begins or ends with a digit is no part of a longer number either: no point or comma that a digit follows
    comes after it, and before it none that follows a digit and no sign that follows no word. `text` has no spaces
    or line ends around it. Models that act are read by the same rule in generate/reading.py. -#}
{% macro options_named(text, options) -%}
    case
        when list_contains({{ options }}, {{ text }}) then [{{ text }}]
        when
            len(list_filter({{ options }}, lambda o: {{ occurs(text, 'o') }})) > 0
            then list_filter({{ options }}, lambda o: {{ occurs(text, 'o') }})
        else list_filter({{ options }}, lambda o: {{ occurs('lower(' ~ text ~ ')', 'lower(o)') }})
    end
{%- endmacro %}


{#- An expression that is made for each option takes a hundred times as long as one that is always the same. So the
    option is cut out of the text where it occurs, up to its first and last character, and these expressions tell
    what stands around. -#}
{% macro occurs(text, option) -%}
    {%- set cut -%}
        replace(
            replace({{ text }}, chr(1), ' '),
            {{ option }},
            left({{ option }}, 1) || chr(1) || right({{ option }}, 1)
        )
    {%- endset -%}
    {%- set before = '(^|[^\\p{L}\\p{N}_])' -%}
    {%- set before_number = '(^|[^\\p{L}\\p{N}_.,+-]|(^|[^\\p{Nd}\\x01])[.,]|[\\p{L}\\p{N}_][+-])' -%}
    {%- set after = '(\\z|[^\\p{L}\\p{N}_])' -%}
    {%- set after_number = '(\\z|[^\\p{L}\\p{N}_.,]|[.,](\\z|[^\\p{Nd}\\x01]))' -%}
    {%- set option_itself = '(?s:.)\\x01(?s:.)' -%}
    case
        when regexp_matches({{ option }}, '^\p{Nd}(.*\p{Nd})?$', 's')
            then regexp_matches({{ cut }}, '{{ before_number ~ option_itself ~ after_number }}')
        when regexp_matches({{ option }}, '^\p{Nd}')
            then regexp_matches({{ cut }}, '{{ before_number ~ option_itself ~ after }}')
        when regexp_matches({{ option }}, '\p{Nd}$')
            then regexp_matches({{ cut }}, '{{ before ~ option_itself ~ after_number }}')
        else regexp_matches({{ cut }}, '{{ before ~ option_itself ~ after }}')
    end
{%- endmacro %}


{#- Numbers that a text holds, as a list; null for one that can be read in several ways. The answer is read by
    number_read() if all are the same. A number has digits from 0 to 9, one decimal point or none, a sign directly
    before it or none, and an exponent or none: 40, -5, +0.5, .5, 1e-3. What is around it counts for nothing, a
    percent sign included. Digits in a word are no number (2nd, x2, COVID-19), and digits that one of the
    characters . , / : ^ * × = + - − – — joins can be read in several ways (1,000 and 0,5, 1/2, 40-60, 10:30). -#}
{% macro numbers_in(text) -%}
    list_transform(
        list_filter(
            {#- runs of points, words, and then whatever begins with a digit -#}
            regexp_extract_all(
                {{ text }},
                '[.]{2,}'
                || '|[\p{L}_][\p{L}\p{M}\p{N}_]*([.''’-][\p{L}\p{N}_][\p{L}\p{M}\p{N}_]*)*'
                || '|[+−-]?[.]?[0-9][\p{L}\p{M}\p{N}_]*([.,/:^*×=+−–—-][\p{L}\p{N}_][\p{L}\p{M}\p{N}_]*)*'
            ),
            lambda written:
                regexp_full_match(written, '[+−-]?[.]?[0-9][0-9.,/:^*×=+−–—-]*')
                or regexp_full_match(written, '{{ a_number() }}')
        ),
        lambda written:
            case
                when regexp_full_match(written, '{{ a_number() }}')
                    then try_cast(replace(written, '−', '-') as double)
            end
    )
{%- endmacro %}


{% macro a_number() -%}
    [+−-]?([0-9]+([.][0-9]+)?|[.][0-9]+)([eE][+−-]?[0-9]+)?
{%- endmacro %}


{#- The one number of a list, however often it is written; null if there is none or not one. -#}
{% macro number_read(numbers) -%}
    case
        when
            list_count({{ numbers }}) = len({{ numbers }})
            and len(list_distinct({{ numbers }})) = 1
            then {{ numbers }}[1]
    end
{%- endmacro %}


{#- Both rules, for the version of what is read by them. -#}
{% macro reading_rules() -%}
    {{ options_named('text', 'options') }}
    {{ number_read(numbers_in('text')) }}
{%- endmacro %}
