"""From what people deploy to normalized documents: readers find launches, one resolver an engine decides."""
