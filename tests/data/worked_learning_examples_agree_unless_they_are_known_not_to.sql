-- Worked examples of the document that its own formulas do not give, or do give where they are known not to.
select
    example_id,
    printed,
    computed,
    agrees,
    is_known_to_disagree
from {{ ref('audit_learning_examples') }}
where agrees is not distinct from is_known_to_disagree or agrees is null
