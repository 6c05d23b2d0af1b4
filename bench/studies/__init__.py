"""What precisions, orders and devices do to answers: experiments of `minitorch_backends.lab`.

A study is a function of plain parameters, a sweep or an audit of it, and how its rows are shown: `run(session)` returns
a result that is JSON, from which `tables`, `summary` and `PLOTS` are made.
"""
