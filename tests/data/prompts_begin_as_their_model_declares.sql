-- Prompts that begin with another number of tokens that begin a sequence than their model declares: one too
-- many or too few moves every log-probability. All that lakes kept are looked at, since models differ in how
-- they write one text.
with

prompts as (
    {{ committed('prompts') }}
)

select
    run_id,
    prompt_sha256,
    n_declared_bos,
    n_leading_bos
from prompts
where
    n_declared_bos is not null
    and n_leading_bos is distinct from n_declared_bos
