"""A pipeline of three banks that trains from sums, for tests of what an accord says about it."""

ITEMS = """\
pipeline: items
accord: demo
seed: 1
initiator: north_bank
roles: {data_holder: [north_bank, south_bank, west_bank], aggregator: [bureau]}
steps:
  load:
    component: load_tables
    params: {data_sets: {north_bank: SETS, south_bank: SETS, west_bank: SETS}}
  split: {component: split_leave_one_out, inputs: {tables: load.tables}}
  train:
    component: horizontal_ease
    inputs: {ratings: split.ratings}
""".replace("SETS", "[ratings, catalogue]")
