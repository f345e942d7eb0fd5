with

files as (

    select file from glob('{{ lake() }}/raw/*/run=*/part-*.parquet')

),

parts as (

    select
        regexp_extract(file, '([^/]+)/run=[^/]+/part-[^/]+$', 1) as raw_table,
        regexp_extract(file, 'run=([^/]+)/part-[^/]+$', 1) as run_id,
        {{ part_id('file') }} as part_id,
        regexp_extract(file, '[^/]+/run=[^/]+/part-[^/]+$') as path
    from files

)

select * from parts
