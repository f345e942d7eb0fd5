{#- One row per dbt run that can change the marts. An export reads it to refuse a failed or stale build. -#}


{% macro lake() %}{{ env_var('COGLAKE_HOME', 'lake') | replace("'", "''") }}{% endmacro %}


{#- Fingerprints of what goes in: names of raw parts are hashes of their bytes. -#}
{% macro create_fingerprints() %}
create or replace macro raw_sha256(folder) as (
    select sha256(coalesce(string_agg(part, chr(10) order by part), ''))
    from (
        select regexp_extract(file, '[^/]+/run=[^/]+/part-[^/]+$') as part
        from glob(folder || '/raw/*/run=*/part-*.parquet')
    )
);
create or replace macro project_sha256(folder) as (
    select sha256(coalesce(string_agg(entry, chr(10) order by entry), '') || version())
    from (
        select parse_filename(filename) || sha256(content) as entry
        from read_text([
            folder || '/models_sql/**/*.sql',
            folder || '/models_sql/**/*.yml',
            folder || '/macros/*.sql',
            folder || '/manifests/*.csv',
            folder || '/manifests/*.yml',
            folder || '/tests/data/**/*.sql',
            folder || '/dbt_project.yml'
        ])
    )
);
{% endmacro %}


{#- Unit tests prove the project, not the rows: a build without them is still full. -#}
{% macro is_full_build() %}
{%- set args = invocation_args_dict -%}
{{ flags.WHICH == 'build'
    and not args.get('select')
    and not args.get('exclude')
    and not args.get('resource_types')
    and (args.get('exclude_resource_types') or []) | list in [[], ['unit_test']] }}
{%- endmacro %}


{% macro start_build_log() %}
{%- if flags.WHICH in ['build', 'run', 'seed', 'test'] -%}
{{ create_fingerprints() }}
create table if not exists build_log (
    invocation_id varchar,
    command varchar,
    is_full boolean,
    started_at timestamptz,
    finished_at timestamptz,
    status varchar,
    n_failed integer,
    raw_sha256 varchar,
    project_sha256 varchar
);
insert into build_log
select
    '{{ invocation_id }}',
    '{{ flags.WHICH }}',
    {{ is_full_build() }},
    now(),
    null,
    'running',
    null,
    {#- a run over no rows leaves marts that match no lake #}
    {% if invocation_args_dict.get('empty') %}'empty'{% else %}raw_sha256('{{ lake() }}'){% endif %},
    project_sha256('{{ invocation_args_dict['project_dir'] | replace("'", "''") }}');
{%- endif -%}
{% endmacro %}


{% macro finish_build_log(results) %}
{%- if execute and flags.WHICH in ['build', 'run', 'seed', 'test'] -%}
{%- set failed = results | selectattr('status', 'in', ['error', 'fail', 'skipped', 'partial success']) | list -%}
update build_log
set
    finished_at = now(),
    status = '{{ "failed" if failed else "success" }}',
    n_failed = {{ failed | rejectattr('status', 'equalto', 'skipped') | list | length }}
where invocation_id = '{{ invocation_id }}';
{%- endif -%}
{% endmacro %}
