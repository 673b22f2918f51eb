"""Tables of events → counts of bounded contributions."""
