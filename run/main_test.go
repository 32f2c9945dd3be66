package run

import "time"

// noon is a time with a round number of milliseconds.
var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

func at(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
