package cron

// Civil dates as plain arithmetic: a day number counts days from 1970-01-01, a wall time counts
// seconds from 1970-01-01 00:00:00 on the clock of the zone. Neither knows anything of zones.

const (
	day  = 24 * 60 * 60 // seconds
	hour = 60 * 60
)

// date returns the civil date of a day number. It counts in years that start in March, so that the
// leap day comes last; 146097 days are the 400 years after which the calendar repeats.
func date(days int64) (year, month, dom int) {
	days += 719468 // from 0000-03-01
	era := floorDiv(days, 146097)
	doe := days - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	year, month, dom = int(yoe+era*400), int(mp+3), int(doy-(153*mp+2)/5+1)
	if month > 12 {
		return year + 1, month - 12, dom
	}
	return year, month, dom
}

// dayNumber is the inverse of date for years from 1.
func dayNumber(year, month, dom int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	doy := (153*(month-3)+2)/5 + dom - 1
	return int64(year*365+year/4-year/100+year/400+doy) - 719468
}

// yearKind is all that tells one year's calendar from another's: whether it is a leap year, and the
// weekday it starts on. There are 14 kinds.
type yearKind int

const yearKinds = 14

func kindOf(year int) yearKind {
	jan1 := (dayNumber(year, 1, 1) + 4) % 7 // 1970-01-01 was a Thursday
	if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return yearKind(7 + jan1)
	}
	return yearKind(jan1)
}

// month returns the weekday of the first (Sunday is 0) and the number of days of a month.
func (k yearKind) month(month int) (first, length int) {
	before := [...]int{0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365}
	start, end := before[month], before[month+1]
	if k >= 7 {
		if month > 2 {
			start++
		}
		if month >= 2 {
			end++
		}
	}
	return (int(k) + start) % 7, end - start
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
