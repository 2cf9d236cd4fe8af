"""The schema of every Kafka message.

The text files in messages/, their parser, and the values they become.
"""
