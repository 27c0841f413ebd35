"""What tests of several folders share. What one folder needs alone is in that folder.

Applications under test:
- `shop`: aggregates, their events, and an outbox on their MetaData
- `rows`: the shop's outbox as rows: save into it, read it, wait for it
- `shop_with_failures`: three failed records, and the commands that look at them
- `note_handlers`: handlers that write a note, from a Dishka container
- `gated_publisher`: a publisher that a test holds back, or has refuse
- `claims`: records as a relay would have claimed them
- `story`: a test that runs in a sync and in an async session

Servers:
- `services`: the URLs of the servers that tests use
- `postgres`: databases and roles that live as long as a test or a session
- `rabbitmq`: virtual hosts and users that live as long as a test
- `broker`: a client of RabbitMQ that is not postroom's: queues, consumers, faults
- `fake_broker`: a broker that says what a test has it say
- `pgbouncer`: a PgBouncer of a test's own
- `ports`: free ports for servers of a test's own
- `proxy`: a TCP proxy that a test can cut, stall or slow down
- `listening`: a TCP server in the process of the tests
- `serving`: an ASGI application under uvicorn, in the process of the tests
- `browser`: Chromium, and pages in which every problem fails the test

Processes and commands:
- `program`: Python programs as processes, forked from one that has imported the libraries
- `program_server`: that process
- `command`: commands as processes: started, watched, signalled
- `in_process`: the command `postroom` in the process of the tests

Looking and waiting:
- `waiting`: bounded waits for a condition
- `leftovers`: fails a test that leaves something behind
- `doctor_checks`: the checks of `postroom doctor`, and their remedies
- `statements`: the statements that a store runs
- `scans`: how many rows sequential scans have read
- `traces`: OpenTelemetry's spans, in memory
- `commit_order`: an outbox that does not lock, and who waits for a lock
- `dropping`: drops the tables of an outbox whose relay has just stopped
- `without_autovacuum`: an outbox whose tables autovacuum leaves alone
"""
