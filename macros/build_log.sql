{#- One row per dbt run that can change the marts. An export reads it to refuse a failed or stale build. -#}


{% macro lake() %}{{ env_var('COGLAKE_HOME', 'lake') | replace("'", "''") }}{% endmacro %}


{% macro project_dir() %}{{ invocation_args_dict['project_dir'] | replace("'", "''") }}{% endmacro %}


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
create or replace macro manifest_sha256(folder) as (
    select sha256(coalesce(string_agg(parse_filename(filename) || sha256(content), chr(10) order by filename), ''))
    from read_text(folder || '/manifests/*.csv')
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


{#- What versions of the rules other than the current ones said of raw rows: filled before a rule's table loses them. -#}
{% macro create_replaced_scores() %}
create table if not exists replaced_scores (
    {%- for name, type in verdict_columns().items() %}
    {{ name }} {{ type }},
    {%- endfor %}
    replaced_by varchar,
    replaced_at timestamptz
);
{% endmacro %}


{% macro start_build_log() %}
{%- if flags.WHICH in ['build', 'run', 'seed', 'test'] -%}
{{ create_fingerprints() }}
{{ create_replaced_scores() }}
create table if not exists build_log (
    invocation_id varchar,
    command varchar,
    is_full boolean,
    started_at timestamptz,
    finished_at timestamptz,
    status varchar,
    n_failed integer,
    raw_sha256 varchar,
    project_sha256 varchar,
    git_sha varchar,
    manifest_sha256 varchar
);
{#- databases of an older version #}
alter table build_log add column if not exists git_sha varchar;
alter table build_log add column if not exists manifest_sha256 varchar;
{#- a build that was killed had no time to take back what it wrote #}
{{ forget_history("select log.invocation_id from build_log as log where log.status = 'running'") }}
insert into build_log by name
select
    '{{ invocation_id }}' as invocation_id,
    '{{ flags.WHICH }}' as command,
    {{ is_full_build() }} as is_full,
    now() as started_at,
    'running' as status,
    {#- a run over no rows leaves marts that match no lake #}
    {% if invocation_args_dict.get('empty') %}'empty'{% else %}raw_sha256('{{ lake() }}'){% endif %} as raw_sha256,
    project_sha256('{{ project_dir() }}') as project_sha256,
    git_sha('{{ project_dir() }}') as git_sha,
    manifest_sha256('{{ project_dir() }}') as manifest_sha256;
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
{#- a test that fails after every table was built leaves values that are all of one state #}
{%- if failed | rejectattr('node.resource_type', 'equalto', 'test') | list %}
{{ forget_history("'" ~ invocation_id ~ "'") }}
{%- endif %}
{%- endif -%}
{% endmacro %}


{#- Values of a build that did not make every table, or did not end, may stand on tables of another state. -#}
{% macro forget_history(invocations) -%}
{%- set history = load_relation(api.Relation.create(
    database=target.database, schema=target.schema, identifier='audit_score_history'
)) if execute -%}
{%- if history %}
delete from {{ history }} where invocation_id in ({{ invocations }});
{%- endif %}
{%- endmacro %}
