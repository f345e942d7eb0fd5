"""Meanings of roots."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NOUNS = _words(
    """
    anchor apple arrow basket beam bell blanket boat bone bowl branch bread bridge broom bucket button
    candle cave chain chair cheese cloak cloud coin comb cradle crown cup curtain door drum egg
    feather fence field fire flute garden gate glove grain hammer harbour hat hill honey island kettle key
    knife ladder lake lamp leaf letter meadow mirror moon mountain nail needle nest oar onion oven path
    pearl pillow pipe pocket pond pot river roof rope saddle sail salt shadow shell shoe shore
    shovel smoke snow spoon stair star stone storm stove table thorn thread tower valley wagon
    wall wheel window
    """
)
TRANSITIVES = _words(
    """
    answer ask avoid bend bless call carry catch cheer chase choose comfort count cover cross drag draw drop
    fetch find follow forget greet guard guess help hide hold hunt keep kick lead leave lift lose meet mend
    miss move need notice paint pass praise pull push reach recognise save seek send shake stop support
    surprise teach thank touch turn warn wash watch
    """
)
VERBS = _words(
    """
    answer arrive bake bend blink boil borrow bow breathe build burn call carry carve choose climb collect
    count cross dance dig dive drift drink drop fall fetch find float fold follow forget gather grow guess
    hang hide hum hunt hurry jump kneel knock laugh lean leap listen look melt mend nod paint pour praise pull
    push reach rest return row run search sell send shake shout sing sink sit sleep slip smile sneeze speak
    spin stand stumble sweep swim swing teach thank throw tremble turn wade wait wake walk wander wash watch
    weave weep whisper whistle work yawn
    """
)
PERSONS = _words(
    """
    aunt baker brother carpenter child cook cousin dancer daughter doctor farmer father fisher girl
    grandmother judge king midwife miller mother nephew niece painter potter priest queen sailor servant
    shepherd sister smith son tailor teacher uncle weaver widow
    """
)
ANIMALS = _words(
    """
    ant badger bat bear bee beetle cat cow crab crow deer dog donkey duck eagle eel fox frog goat goose hare
    hedgehog hen heron horse lizard mole mouse otter owl ox pig pigeon salmon sheep snail spider squirrel
    swan toad wasp wolf worm
    """
)
THINGS = _words(
    """
    arrow axe basket bell blanket boat bone bowl bridge broom bucket candle chair cloak comb cup door drum
    fence gate glove hammer hat kettle key knife ladder lamp mirror needle pillow pipe pot ring rope saddle
    sail shoe spoon table tower wall wheel window
    """
)
