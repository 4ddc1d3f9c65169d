"""What a query may be made of: kinds of syntax nodes, functions and types, as sqlglot names them. All else is refused.

Left out on purpose: what writes, locks, sleeps, or reads files, network, settings, catalogs and other rows (table
functions, sequences, large objects, casts to `regclass`); what makes long values of short ones (`repeat`, `lpad`); and
spellings of texts that differ between databases (`e'…'`, `U&'…'`).
"""

_NODES = """
Select Union Except Intersect Subquery Values With CTE From Join Lateral Table TableAlias
Column Identifier Star Alias Paren Tuple Literal Null Boolean Var DataType DataTypeParam
Where Group Having Qualify Order Ordered Limit LimitOptions Offset Fetch Distinct
Cube Rollup GroupingSets Window WindowSpec WithinGroup Filter IgnoreNulls RespectNulls
Neg Not EQ NEQ NullSafeEQ NullSafeNEQ GT GTE LT LTE Is Between In Like ILike Glob SimilarTo Escape Any All
Add Sub Mul Div IntDiv Mod DPipe BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift BitwiseRightShift
Interval IntervalSpan AtTimeZone Overlaps Bracket
JSONPath JSONPathRoot JSONPathKey JSONPathSubscript JSONPathWildcard
"""

_FUNCTIONS = """
And Or Xor Case If Cast TryCast Coalesce Nullif Exists Collate Typeof Greatest Least
Avg Count CountIf Sum Min Max Median Mode AnyValue ArgMax ArgMin ArrayAgg GroupConcat LogicalAnd LogicalOr
Corr CovarPop CovarSamp Stddev StddevPop StddevSamp Variance VariancePop Skewness Kurtosis
ApproxDistinct ApproxQuantile Quantile PercentileCont PercentileDisc Grouping First Last
RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag Lead FirstValue LastValue NthValue
Abs Acos Acosh Asin Asinh Atan Atan2 Atanh Cbrt Ceil Cos Cosh Cot Degrees Exp Floor Ln Log Pi Pow Radians Rand Round
Sign Sin Sinh Sqrt Tan Tanh Trunc WidthBucket IsInf IsNan
Ascii Chr Concat ConcatWs Contains EndsWith Initcap Left Length Levenshtein JarowinklerSimilarity Lower RegexpCount
RegexpExtract RegexpFullMatch RegexpILike RegexpLike RegexpReplace Replace Reverse Right SplitPart StartsWith
StrPosition Substring Translate Trim Unicode Upper ToChar ToNumber
CurrentDate CurrentDatetime CurrentTime CurrentTimestamp Localtime Localtimestamp
Date DateAdd DateDiff DateFromParts DateStrToDate DateSub DateTrunc Datetime DatetimeAdd DatetimeDiff DatetimeSub
DatetimeTrunc Day DayOfMonth DayOfWeek DayOfWeekIso DayOfYear Dayname Extract Hour JustifyDays JustifyHours
JustifyInterval LastDay MakeInterval Minute Month Monthname MonthsBetween Quarter Second StrToDate StrToTime Time
TimeAdd TimeDiff TimeFromParts TimeStrToDate TimeStrToTime TimeSub TimeToStr TimeToUnix TimeTrunc Timestamp
TimestampAdd TimestampDiff TimestampFromParts TimestampSub TimestampTrunc TsOrDsAdd TsOrDsDiff TsOrDsToDate
TsOrDsToDatetime TsOrDsToTime TsOrDsToTimestamp UnixSeconds UnixToTime Week WeekOfYear Year
Array ArrayContains ArraySize ArrayToString StringToArray
JSONExtract JSONExtractScalar JSONBExtract JSONBExtractScalar
"""

NODES = frozenset(_NODES.split())
FUNCTIONS = frozenset(_FUNCTIONS.split())

# Functions that sqlglot has no class for, by dialect.
_COMMON = "age date_part ifnull char_length octet_length"
_NAMED = {
    "sqlite": "julianday unixepoch date time datetime strftime total printf octet_length json_array_length json_type "
    "json_valid likely unlikely",
    "postgres": "age make_date make_time make_timestamp isfinite every cardinality octet_length starts_with div "
    "clock_timestamp statement_timestamp num_nulls num_nonnulls json_array_length jsonb_array_length json_typeof "
    "jsonb_typeof regexp_match similarity word_similarity unaccent scale row log10 array_position",
    "duckdb": "age date_part date_sub epoch_us epoch_ns product favg fsum sum_no_overflow strlen strip_accents "
    "octet_length json_array_length json_type json_valid prefix suffix mad list_contains list_aggregate century "
    "decade era round_even jaccard damerau_levenshtein hamming count_star",
}


def named(dialect: str) -> frozenset[str]:
    """Functions that sqlglot does not know, in lower case."""
    return frozenset(_NAMED.get(dialect, _COMMON).split())


_TYPES = """
ARRAY BIGDECIMAL BIGINT BIT BOOLEAN CHAR DATE DATETIME DECIMAL DOUBLE FLOAT INT INT128 INTERVAL JSON JSONB MEDIUMINT
MEDIUMTEXT NCHAR NVARCHAR SMALLINT TEXT TIME TIMESTAMP TIMESTAMPLTZ TIMESTAMPNTZ TIMESTAMPTZ TIMETZ TINYINT UBIGINT
UINT USMALLINT UTINYINT UUID VARCHAR TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS DECFLOAT
"""
TYPES = frozenset(_TYPES.split())

# Parts that these nodes may have: others change what is read (samples, pivots), lock, or write.
_QUERY_END = {"order", "limit", "offset"}
PARTS = {
    "Select": {"with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "qualify", "windows"}
    | _QUERY_END,
    "Union": {"with_", "this", "expression", "distinct", "by_name"} | _QUERY_END,
    "Subquery": {"this", "alias", "with_", "joins"} | _QUERY_END,
    "Values": {"expressions", "alias"} | _QUERY_END,
    "With": {"expressions", "recursive"},
    "CTE": {"this", "alias", "materialized"},
    "From": {"this"},
    "Join": {"this", "on", "side", "kind", "using", "method"},
    "Lateral": {"this", "alias"},
    "Table": {"this", "db", "catalog", "alias", "joins"},
    "TableAlias": {"this", "columns"},
    "Column": {"this", "table", "db", "catalog"},
    "Star": {"except_", "replace", "rename"},
    "Ordered": {"this", "desc", "nulls_first", "nulls_last"},
    "DataType": {"this", "expressions", "nested", "values"},
    "In": {"this", "expressions", "query"},
    "Cast": {"this", "to"},
    "TryCast": {"this", "to", "safe", "requires_string"},
}
PARTS["Except"] = PARTS["Intersect"] = PARTS["Union"]

# SQLite's own names of functions, for its authorizer: without those that read files, load code or make long values.
SQLITE_FUNCTIONS = frozenset(
    """
    abs acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow
    power radians sign sin sinh sqrt tan tanh trunc round max min random avg count sum total group_concat string_agg
    char coalesce concat concat_ws format printf glob ifnull iif if instr length like likely unlikely lower ltrim nullif
    octet_length replace rtrim substr substring trim typeof unicode upper
    date time datetime julianday unixepoch strftime current_date current_time current_timestamp
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
    json_extract json_array_length json_type json_valid -> ->> like_escape
    """.split()
)
